// Plan files taken apart and put together again, with right checksums, for the fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/json.h"

struct PlanFile {
  using Array = std::pair<std::string, std::vector<uint8_t>>;  // name, and bytes with their padding

  std::shared_ptr<const void> source;  // what texts of `plan` lie in
  std::deque<std::string> texts;       // new ones
  intact::engine::Json plan;
  std::vector<Array> arrays;

  Array* find(std::string_view name);
  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

// Nothing for what is no plan file.
std::optional<PlanFile> read_plan_file(const uint8_t* data, size_t bytes);

// Gives arrays of less than 2^20 bytes the size that their records ask for: sizes are not all that is to be refused.
void resize_arrays(PlanFile& file);

// The file, as long as its arrays are what its records ask for with checksums that match.
std::string write_plan_file(PlanFile& file);
