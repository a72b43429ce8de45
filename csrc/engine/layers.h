// Parts of native steps that no size changes: packed weights as kernels read them, and settled epilogues.
// They are made once for a plan, and the steps of all sizes share them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace intact::engine {

class PlanStep;

class Layers {
 public:
  // The part of a step that is called so, which `make` makes where there is none. Each name belongs to one
  // type. Any number of threads may ask at once: what two of them miss, both make, and one is kept.
  template <class Part, class Make>
  std::shared_ptr<const Part> get(const PlanStep* step, const std::string& name, const Make& make) {
    const std::pair key(step, name);
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = parts_.find(key); at != parts_.end()) {
        return std::static_pointer_cast<const Part>(at->second);
      }
    }
    std::shared_ptr<const Part> made = make();
    const std::lock_guard lock(mutex_);
    return std::static_pointer_cast<const Part>(parts_.emplace(key, std::move(made)).first->second);
  }
  // Drops all parts, for other kernels or other packed weights. Steps keep those that they have.
  void clear() {
    const std::lock_guard lock(mutex_);
    parts_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const PlanStep*, std::string>, std::shared_ptr<const void>> parts_;
};

}  // namespace intact::engine
