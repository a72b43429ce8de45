#include "engine/container.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "engine/crc32.h"
#include "engine/failure.h"
#include "engine/json.h"

namespace intact::engine {
namespace {

constexpr uint64_t kLargestHeader = 100'000'000;  // safetensors' own bound

uint64_t header_length(std::span<const uint8_t> bytes, const std::string& where) {
  if (bytes.size() < 8) fail_file(where, std::to_string(bytes.size()) + " bytes", "a plan file");
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | bytes[i];
  if (length > std::min<uint64_t>(bytes.size() - 8, kLargestHeader) || (8 + length) % kFileAlignment != 0) {
    fail_file(where, "a header of " + std::to_string(length) + " bytes", "a plan file");
  }
  return length;
}

// The text of the plan, found to be what was written.
std::string plan_text(const Json& header, const std::string& where) {
  const Json* const metadata = header.find("__metadata__");
  const Json* const plan = metadata == nullptr ? nullptr : metadata->find("intact.plan");
  const Json* const sum = metadata == nullptr ? nullptr : metadata->find("intact.plan.crc32");
  const bool there =
      plan != nullptr && plan->is(Json::Kind::text) && sum != nullptr && sum->is(Json::Kind::text);
  if (!there || metadata->keys.size() != 2) fail_file(where, "other metadata", "those of a plan file");
  uint32_t wanted = 0;
  const char* const last = sum->text.data() + sum->text.size();
  const auto [end, error] = std::from_chars(sum->text.data(), last, wanted, 16);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(plan->text.data());
  if (error != std::errc() || end != last || sum->text.size() != 8 ||
      crc32(bytes, plan->text.size()) != wanted) {
    fail_file(where, "a plan that does not match its checksum", "the plan that was written");
  }
  return std::string(plan->text);
}

// The end of an entry that is an array of bytes from `begin` on; 0 for any other.
size_t end_of(const Json& entry, size_t begin, size_t most) {
  const Json *dtype = entry.find("dtype"), *shape = entry.find("shape"),
             *offsets = entry.find("data_offsets");
  const auto pair_of = [](const Json* v, size_t n) {
    if (v == nullptr || !v->is(Json::Kind::list) || v->items.size() != n) return false;
    return std::all_of(v->items.begin(), v->items.end(),
                       [](const Json& i) { return i.is(Json::Kind::integer); });
  };
  if (entry.keys.size() != 3 || dtype == nullptr || dtype->text != "U8") return 0;
  if (!pair_of(shape, 1) || !pair_of(offsets, 2)) return 0;
  const int64_t first = offsets->items[0].integer, end = offsets->items[1].integer;
  if (first != static_cast<int64_t>(begin) || end <= first || end > static_cast<int64_t>(most)) return 0;
  return end % kFileAlignment == 0 && shape->items[0].integer == end - first ? static_cast<size_t>(end) : 0;
}

}  // namespace

Container read_container(Bytes file, const std::string& where) {
  const std::span<const uint8_t> bytes = file.bytes;
  const auto length = static_cast<size_t>(header_length(bytes, where));
  const JsonDocument document({reinterpret_cast<const char*>(bytes.data()) + 8, length}, where);
  const Json& header = document.root();
  if (!header.is(Json::Kind::object)) fail_file(where, text_of(header), "a plan file");
  Container found{std::move(file), plan_text(header, where), {}};
  const std::span<const uint8_t> data = bytes.subspan(8 + length);
  size_t begin = 0;
  for (size_t i = 0; i < header.items.size(); ++i) {
    if (header.keys[i] == "__metadata__") continue;
    const size_t end = end_of(header.items[i], begin, data.size());
    const std::string name(header.keys[i]);
    if (end == 0)
      fail_file(where, "'" + name + "'",
                "an array from byte " + std::to_string(begin) + " on within the file");
    if (!found.arrays.emplace(name, data.subspan(begin, end - begin)).second) {
      fail_file(where, "'" + name + "' twice", "distinct names");
    }
    begin = end;
  }
  if (begin != data.size()) fail_file(where, "bytes of no array", "none");
  return found;
}

}  // namespace intact::engine
