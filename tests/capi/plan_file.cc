#include "plan_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/type_names.h"
#include "engine/container.h"
#include "engine/crc32.h"
#include "engine/failure.h"

namespace engine = intact::engine;
using engine::Json;

namespace {

struct Source {
  engine::Container container;
  engine::JsonDocument document;

  explicit Source(engine::Container read)
      : container(std::move(read)), document(container.plan, "the plan") {}
};

void print_text(std::string_view text, std::string& to) {
  to += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      to += escaped;
    } else {
      to += c;
    }
  }
  to += '"';
}

void print_real(double value, std::string& to) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.17g", value);
  to += digits;
  if (std::strpbrk(digits, ".e") == nullptr) to += ".0";
}

void print(const Json& value, std::string& to) {
  switch (value.kind) {
    case Json::Kind::null: to += "null"; return;
    case Json::Kind::boolean: to += value.truth ? "true" : "false"; return;
    case Json::Kind::integer: to += std::to_string(value.integer); return;
    case Json::Kind::real: print_real(value.real, to); return;
    case Json::Kind::text: print_text(value.text, to); return;
    case Json::Kind::list:
    case Json::Kind::object: break;
  }
  const bool has_keys = value.is(Json::Kind::object);
  to += has_keys ? '{' : '[';
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) to += ',';
    if (has_keys) {
      print_text(value.keys[i], to);
      to += ':';
    }
    print(value.items[i], to);
  }
  to += has_keys ? '}' : ']';
}

Json* member(Json& object, std::string_view key) { return const_cast<Json*>(object.find(key)); }

std::string text_at(Json& record, std::string_view key) {
  const Json* const found = record.find(key);
  return found == nullptr ? "" : std::string(found->text);
}

// Bytes that a record's dtype and shape ask for; nothing where they are none.
std::optional<size_t> bytes_of_record(Json& record) {
  const auto type = intact::find_type(text_at(record, "dtype"));
  const Json* const shape = record.find("shape");
  if (!type || shape == nullptr || !shape->is(Json::Kind::list)) return std::nullopt;
  size_t bytes = intact::bytes_of(*type);
  for (const Json& size : shape->items) {
    if (!size.is(Json::Kind::integer) || size.integer < 0) return std::nullopt;
    if (size.integer > (int64_t{1} << 30) || bytes > (size_t{1} << 30)) return std::nullopt;
    bytes *= static_cast<size_t>(size.integer);
  }
  return bytes;
}

// Calls `visit(record, array, bytes)` for every record of an array that is there.
template <class Visit>
void visit_arrays(PlanFile& file, const Visit& visit) {
  for (const char* const kind : {"constants", "packed"}) {
    Json* const records = file.plan.is(Json::Kind::object) ? member(file.plan, kind) : nullptr;
    if (records == nullptr || !records->is(Json::Kind::list)) continue;
    for (Json& record : records->items) {
      if (!record.is(Json::Kind::object)) continue;
      const std::string name = record.find("kernel") == nullptr ? "constant/" + text_at(record, "name")
                                                                : "packed/" + text_at(record, "kernel") +
                                                                      "/" + text_at(record, "constant");
      PlanFile::Array* const array = file.find(name);
      const auto bytes = bytes_of_record(record);
      if (array != nullptr && bytes) visit(record, array->second, *bytes);
    }
  }
}

uint32_t crc32_of(std::string_view text) {
  return engine::crc32(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

std::string header_of(PlanFile& file) {
  std::string plan, header = "{\"__metadata__\":{\"intact.plan\":";
  print(file.plan, plan);
  print_text(plan, header);
  char sum[64];
  std::snprintf(sum, sizeof sum, ",\"intact.plan.crc32\":\"%08x\"}", crc32_of(plan));
  header += sum;
  size_t begin = 0;
  for (const auto& [name, bytes] : file.arrays) {
    const size_t end = begin + bytes.size();
    header += ',';
    print_text(name, header);
    header += ":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(bytes.size()) + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  header += '}';
  header.append(
      (engine::kFileAlignment - (8 + header.size()) % engine::kFileAlignment) % engine::kFileAlignment, ' ');
  return header;
}

}  // namespace

PlanFile::Array* PlanFile::find(std::string_view name) {
  const auto found =
      std::find_if(arrays.begin(), arrays.end(), [&](const Array& a) { return a.first == name; });
  return found == arrays.end() ? nullptr : &*found;
}

std::optional<PlanFile> read_plan_file(const uint8_t* data, size_t bytes) {
  try {
    const auto source =
        std::make_shared<Source>(engine::read_container({{data, bytes}, nullptr}, "the plan"));
    PlanFile file{source, {}, source->document.root(), {}};
    std::vector<std::pair<std::string, std::span<const uint8_t>>> spans(source->container.arrays.begin(),
                                                                        source->container.arrays.end());
    std::sort(spans.begin(), spans.end(),
              [](const auto& a, const auto& b) { return a.second.data() < b.second.data(); });
    for (const auto& [name, span] : spans)
      file.arrays.emplace_back(name, std::vector(span.begin(), span.end()));
    return file;
  } catch (const engine::Failure&) {
    return std::nullopt;
  }
}

void resize_arrays(PlanFile& file) {
  visit_arrays(file, [](Json&, std::vector<uint8_t>& array, size_t bytes) {
    if (bytes >= size_t{1} << 20 || array.empty()) return;
    const size_t old = array.size(), wanted = engine::padded_in_file(bytes);
    array.resize(wanted);
    for (size_t i = old; i < wanted; ++i) array[i] = array[i % old];
    std::fill(array.begin() + static_cast<std::ptrdiff_t>(bytes), array.end(), uint8_t{0});
  });
}

std::string write_plan_file(PlanFile& file) {
  visit_arrays(file, [](Json& record, const std::vector<uint8_t>& array, size_t bytes) {
    Json* const sum = member(record, "crc32");
    if (sum != nullptr && bytes <= array.size()) sum->integer = engine::crc32(array.data(), bytes);
  });
  const std::string header = header_of(file);
  std::string found(8, '\0');
  for (size_t i = 0; i < 8; ++i) found[i] = static_cast<char>(header.size() >> 8 * i);
  found += header;
  for (const auto& array : file.arrays) found.append(array.second.begin(), array.second.end());
  return found;
}
