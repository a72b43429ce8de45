// Finds the steps that may share a 16-bit sum, by a proof from the weights.
//
// A lane holds the sum of two products, byte x weight, of each step of its group. Bytes are 0 to `high`.
// Where the positive weights of a lane, over both products of all steps, add up to P and the negative ones to
// -N, every partial sum in any order lies between -high * N and high * P. Nothing saturates or wraps while
//   high * P <= 32767  and  high * N <= 32768.
// A step that breaks this alone becomes two at the same offset whose weights add up to its own. Where that
// makes many, words of 16 bits, which need no proof, are faster than groups.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/tuning.h"
#include "kernels/gemm/packed.h"

namespace intact {
namespace {

using namespace tuning::packing;

struct Limits {
  int positive, negative;
  explicit Limits(int32_t high)
      : positive(high == 0 ? 65535 : 32767 / high), negative(high == 0 ? 65535 : 32768 / high) {}
};

// Of each lane: the sum of the positive weights, then that of the negative ones' magnitudes.
std::vector<uint16_t> loads_of(const std::vector<int8_t>& weights) {
  std::vector<uint16_t> loads(weights.size(), 0);
  const size_t lanes = weights.size() / 2;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int w = weights[i];
    uint16_t& load = loads[i / 2 + (w < 0 ? lanes : 0)];
    load = static_cast<uint16_t>(load + (w < 0 ? -w : w));
  }
  return loads;
}

bool fits(const std::vector<uint16_t>& loads, const Limits& limits) {
  const size_t lanes = loads.size() / 2;
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i] > (i < lanes ? limits.positive : limits.negative)) return false;
  }
  return true;
}

// Takes from a lane's two weights what exceeds the limit of their sign, and returns it as the second step's.
void split_lane(int8_t* kept, int8_t* moved, const Limits& limits) {
  for (const int sign : {1, -1}) {
    int room = sign > 0 ? limits.positive : limits.negative;
    for (int i = 0; i < 2; ++i) {
      const int size = kept[i] * sign;
      if (size <= 0) continue;
      const int stays = std::min(size, room);
      room -= stays;
      kept[i] = static_cast<int8_t>(stays * sign);
      moved[i] = static_cast<int8_t>((size - stays) * sign);
    }
  }
}

struct Item {
  PackStep step;
  std::vector<uint16_t> loads;
  int heaviest;

  explicit Item(PackStep s) : step(std::move(s)), loads(loads_of(step.weights)) {
    heaviest = *std::max_element(loads.begin(), loads.end());
  }
};

std::vector<Item> safe_items(const std::vector<PackStep>& steps, const Limits& limits) {
  std::vector<Item> items;
  for (const PackStep& step : steps) {
    Item whole(step);
    if (fits(whole.loads, limits)) {
      items.push_back(std::move(whole));
      continue;
    }
    PackStep kept = step, moved = {step.position, std::vector<int8_t>(step.weights.size(), 0)};
    for (size_t i = 0; i < step.weights.size(); i += 2) {
      split_lane(&kept.weights[i], &moved.weights[i], limits);
    }
    items.emplace_back(std::move(kept));
    items.emplace_back(std::move(moved));
  }
  return items;
}

struct Group {
  std::vector<size_t> items;
  std::vector<uint16_t> loads;
};

// Adds `more` to the group's loads if they stay within the limits.
bool take(Group& group, const std::vector<uint16_t>& more, const Limits& limits) {
  const size_t lanes = more.size() / 2;
  uint16_t positive = 0, negative = 0;
  for (size_t i = 0; i < lanes; ++i) {
    positive = std::max<uint16_t>(positive, static_cast<uint16_t>(group.loads[i] + more[i]));
    negative = std::max<uint16_t>(negative, static_cast<uint16_t>(group.loads[lanes + i] + more[lanes + i]));
  }
  if (positive > limits.positive || negative > limits.negative) return false;
  for (size_t i = 0; i < more.size(); ++i) group.loads[i] = static_cast<uint16_t>(group.loads[i] + more[i]);
  return true;
}

// First fit, heaviest steps first.
std::vector<Group> fill(const std::vector<Item>& items, const Limits& limits) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return items[a].heaviest > items[b].heaviest; });
  std::vector<Group> groups;
  std::vector<size_t> open;
  for (const size_t i : order) {
    auto found = std::find_if(open.begin(), open.end(),
                              [&](size_t g) { return take(groups[g], items[i].loads, limits); });
    if (found == open.end()) {
      if (open.size() == kOpen) open.erase(open.begin());
      open.push_back(groups.size());
      groups.push_back({{i}, items[i].loads});
      continue;
    }
    groups[*found].items.push_back(i);
    if (groups[*found].items.size() == kMostGroup) open.erase(found);
  }
  return groups;
}

}  // namespace

GroupedSteps group_steps(const std::vector<PackStep>& steps, int32_t high) {
  const Limits limits(high);
  const std::vector<Item> items = safe_items(steps, limits);
  const auto count = static_cast<double>(items.size());
  const double words = kOfWords * static_cast<double>(steps.size());
  GroupedSteps found{steps, {}, words};
  if (words < kOfStep * count + kOfGroup * count / kMostGroup)
    return found;  // the fewest groups are too many
  std::vector<Group> groups = fill(items, limits);
  const double cost = kOfStep * count + kOfGroup * static_cast<double>(groups.size());
  if (words < cost) return found;
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.items.size() > b.items.size(); });
  found.cost = cost;
  found.steps.clear();
  for (const Group& group : groups) {
    ++found.counts[group.items.size() - 1];
    for (const size_t i : group.items) found.steps.push_back(items[i].step);
  }
  return found;
}

}  // namespace intact
