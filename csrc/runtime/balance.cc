#include "runtime/balance.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "runtime/dealing.h"

namespace intact {

int64_t most_work(const Step& step, int threads) {
  const size_t items = step.items(), chunks = chunks_of(items, static_cast<size_t>(threads));
  using Load = std::pair<int64_t, int>;  // work so far, seat
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;  // who is done first comes first
  for (int seat = 0; seat < threads; ++seat) loads.emplace(0, seat);
  int64_t most = 0;
  for (size_t first = 0, last = chunks; first < last;) {
    auto [work, seat] = loads.top();
    loads.pop();
    const size_t chunk = takes_first(seat) ? first++ : --last;
    const size_t begin = first_item(items, chunk, chunks), end = first_item(items, chunk + 1, chunks);
    for (size_t item = begin; item < end; ++item) work += step.work(item);
    most = std::max(most, work);
    loads.emplace(work, seat);
  }
  return most;
}

namespace {

int64_t all_work(const Step& step) {
  int64_t all = 0;
  for (size_t item = 0; item < step.items(); ++item) all += step.work(item);
  return all;
}

}  // namespace

double largest_share(const Step& step, int threads) {
  const int64_t all = all_work(step);
  if (all == 0) return 1;
  return static_cast<double>(most_work(step, threads)) * threads / static_cast<double>(all);
}

bool Evenest::takes(const Step& step, int64_t more) {
  const size_t items = step.items();
  const bool is_dealt_singly = items == chunks_of(items, static_cast<size_t>(threads_));
  if (least_ < 0) {
    equal_share_ = all_work(step) / threads_;
  } else if (equal_share_ >= least_ - least_ / tuning::threads::kAlike &&
             !(items > items_ && is_dealt_singly)) {
    return false;
  }
  const int64_t work = most_work(step, threads_) + more;
  const bool better = least_ < 0 || work < least_ - least_ / tuning::threads::kAlike;
  const bool finer = items > items_ && is_dealt_singly && work <= least_ + least_ / tuning::threads::kAlike;
  if (!better && !finer) return false;
  least_ = better ? work : std::min(least_, work);
  items_ = items;
  return true;
}

}  // namespace intact
