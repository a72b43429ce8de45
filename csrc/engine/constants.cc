#include "engine/constants.h"

#include "engine/crc32.h"
#include "engine/failure.h"

namespace intact::engine {
namespace {

void compare(std::span<const uint8_t> bytes, uint32_t wanted, const std::string& name) {
  if (crc32(bytes.data(), bytes.size()) != wanted) {
    fail_file("array '" + name + "'", "bytes that do not match their checksum",
              "the bytes that were written");
  }
}

}  // namespace

Bytes Arrays::constant(const ConstantRecord& record) {
  if (host_ != nullptr) return host_->constant(record.name);
  const std::lock_guard lock(mutex_);
  return constant_locked(record);
}

Bytes Arrays::constant_locked(const ConstantRecord& record) {
  if (const auto found = sound_.find(record.name); found != sound_.end()) return found->second;
  Bytes bytes{record.bytes, nullptr};
  if (record.stored) {
    const std::vector<float> widened = record.stored->widened();
    bytes = aligned_copy(widened.data(), widened.size() * sizeof(float));
  } else if (record.panels) {
    const Bytes* const packed = find_packed(record.name, record.panels->form());
    const std::vector<uint8_t> codes =
        record.panels->unpack("array '" + record.name + "'", packed->bytes, record.shape[0]);
    bytes = aligned_copy(codes.data(), codes.size());
  }
  compare(bytes.bytes, record.crc32, record.name);
  return sound_.emplace(record.name, bytes).first->second;
}

Bytes Arrays::constant_to_pack(const ConstantRecord& record) {
  const bool was_there = sound_.count(record.name) != 0;
  Bytes bytes = constant_locked(record);
  if ((record.stored || record.panels) && !was_there) sound_.erase(record.name);
  return bytes;
}

uint32_t Arrays::checksum(const ConstantRecord& record) const {
  return host_ != nullptr ? host_->checksum(record.name) : record.crc32;
}

bool Arrays::is_packed(const ConstantRecord& record, const std::string& form) {
  if (host_ != nullptr) return host_->packed(record.name, form).has_value();
  const std::lock_guard lock(mutex_);
  return packed_.count({record.name, form}) != 0;
}

bool Arrays::was_read(const ConstantRecord& record) {
  const std::lock_guard lock(mutex_);
  return sound_.count(record.name) != 0;
}

bool Arrays::add_packed(std::string constant, std::string form, std::span<const uint8_t> bytes,
                        uint32_t crc32) {
  return packed_
      .emplace(std::pair(std::move(constant), std::move(form)), Packed{{bytes, nullptr}, crc32, false})
      .second;
}

const Bytes* Arrays::find_packed(const std::string& constant, const std::string& form) {
  const auto found = packed_.find({constant, form});
  if (found == packed_.end()) return nullptr;
  Packed& packed = found->second;
  if (!packed.is_sound) compare(packed.bytes.bytes, packed.crc32, "packed/" + form + "/" + constant);
  packed.is_sound = true;
  return &packed.bytes;
}

Bytes Arrays::keep_packed(const std::string& constant, const std::string& form, std::vector<uint8_t> made) {
  const Bytes bytes = aligned_copy(made.data(), made.size());
  packed_[{constant, form}] = {bytes, 0, true};
  return bytes;
}

}  // namespace intact::engine
