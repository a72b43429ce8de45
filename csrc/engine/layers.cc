#include "engine/layers.h"

namespace intact::engine {

std::vector<Layers::Part>& Layers::parts_of(const Key& key) {
  auto& all = key.step < 0 ? of_constants_ : of_steps_;
  const auto place = static_cast<size_t>(key.step < 0 ? key.constant : key.step);
  if (place >= all.size()) all.resize(place + 1);
  return all[place];
}

std::shared_ptr<const void> Layers::find(const Key& key, std::shared_ptr<const void> made) {
  const std::lock_guard lock(mutex_);
  std::vector<Part>& parts = parts_of(key);
  for (const Part& one : parts) {
    if (one.constant == key.constant && one.name == key.name) return one.part;
  }
  if (made != nullptr) parts.push_back({key.constant, std::string(key.name), made});
  return made;
}

void Layers::clear() {
  const std::lock_guard lock(mutex_);
  of_steps_.clear();
  of_constants_.clear();
}

}  // namespace intact::engine
