// Parts of native steps that no size changes: packed weights as kernels read them, and settled epilogues.
// They are made once for a plan, and the steps of all sizes share them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace intact::engine {

class Layers {
 public:
  // Names a part: the step, by its number in the file; the constant that the part is made of; and what the
  // part is called. -1: the part is of no step alone, or of no constant.
  struct Key {
    int step, constant;
    std::string_view name = {};
  };

  // Returns the part, which `make` makes where there is none. Each key belongs to one type. Any number of
  // threads may ask at once: what two of them miss, both make, and one is kept.
  template <class Part, class Make>
  std::shared_ptr<const Part> get(const Key& key, const Make& make) {
    std::shared_ptr<const void> part = find(key);
    if (part == nullptr) part = find(key, make());
    return std::static_pointer_cast<const Part>(std::move(part));
  }
  // Drops all parts, for other kernels or other packed weights. Steps keep those that they have.
  void clear();

 private:
  struct Part {
    int constant;
    std::string name;
    std::shared_ptr<const void> part;
  };

  // Returns the part that is there, else `made`, which is there from then on.
  std::shared_ptr<const void> find(const Key& key, std::shared_ptr<const void> made = nullptr);
  std::vector<Part>& parts_of(const Key& key);

  std::mutex mutex_;
  // Few for each step; and for each constant.
  std::vector<std::vector<Part>> of_steps_, of_constants_;
};

}  // namespace intact::engine
