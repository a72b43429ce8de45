// The file around a plan: safetensors, of which docs/plan-format.md says what it promises beyond that.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "engine/mapped_file.h"

namespace intact::engine {

struct Container {
  Bytes file;
  std::string plan;  // the JSON text, of which the checksum has been compared
  std::unordered_map<std::string, std::span<const uint8_t>> arrays;  // with their padding
};

constexpr size_t kFileAlignment = 64;

// Bytes that an array of so many takes in the file: at least kSlack zeros behind it.
constexpr size_t padded_in_file(size_t bytes) {
  return (bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment + kFileAlignment;
}

// Throws Failure (INTACT_BAD_FILE) for anything but such a file; of its arrays nothing is read.
Container read_container(Bytes file, const std::string& where);

}  // namespace intact::engine
