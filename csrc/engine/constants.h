// The arrays of a plan: canonical constants, and what kernels have packed of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/bytes.h"
#include "engine/host.h"
#include "engine/panels.h"
#include "engine/stored.h"
#include "engine/tensor.h"

namespace intact::engine {

struct ConstantRecord {
  std::string name;
  Type type = Type::u8;
  Shape shape;
  uint32_t crc32 = 0;
  std::span<const uint8_t> bytes;  // in the file, with padding behind them; of a stored one its codes
  std::optional<Stored> stored;    // where the file holds it in fewer bits
  std::optional<Panels> panels;    // where the file holds it packed alone

  size_t nbytes() const { return static_cast<size_t>(elements(shape)) * bytes_of(type); }
};

// Arrays of a file, compared with their checksums when they are first asked for, and arrays that were made of
// them, once for all contexts. Any number of threads may ask at once.
class Arrays {
 public:
  // `host`: who holds them instead.
  explicit Arrays(Host* host = nullptr) : host_(host) {}

  // Throws Failure (INTACT_BAD_FILE): the bytes do not match.
  Bytes constant(const ConstantRecord& record);
  // What `form` of a constant is called; bytes of the file, or what `make` makes, kept from then on.
  template <class Make>
  Bytes packed(const ConstantRecord& record, const std::string& form, const Make& make,
               Type type = Type::u8) {
    if (host_ != nullptr) {
      if (const auto known = host_->packed(record.name, form)) return *known;
      return host_->keep_packed(record.name, form, type, make(host_->constant_to_pack(record.name)));
    }
    const std::lock_guard lock(mutex_);
    if (const Bytes* const known = find_packed(record.name, form)) return *known;
    return keep_packed(record.name, form, make(constant_to_pack(record)));
  }
  uint32_t checksum(const ConstantRecord& record) const;
  bool is_packed(const ConstantRecord& record, const std::string& form);
  bool was_read(const ConstantRecord& record);
  // Of a file. Names that are there already are refused.
  bool add_packed(std::string constant, std::string form, std::span<const uint8_t> bytes, uint32_t crc32);

 private:
  struct Packed {
    Bytes bytes;
    uint32_t crc32 = 0;
    bool is_sound = false;
  };

  Bytes constant_locked(const ConstantRecord& record);
  // A constant that the file holds in another form is made for a while only.
  Bytes constant_to_pack(const ConstantRecord& record);
  const Bytes* find_packed(const std::string& constant, const std::string& form);
  Bytes keep_packed(const std::string& constant, const std::string& form, std::vector<uint8_t> made);

  Host* const host_;
  std::mutex mutex_;
  std::map<std::string, Bytes> sound_;  // constants by name
  std::map<std::pair<std::string, std::string>, Packed> packed_;
};

}  // namespace intact::engine
