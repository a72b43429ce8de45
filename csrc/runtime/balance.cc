#include "runtime/balance.h"

#include <algorithm>
#include <vector>

#include "runtime/thread_pool.h"

namespace intact {

double largest_share(const Step& step, int threads) {
  const size_t items = step.items(), chunks = chunks_of(items, static_cast<size_t>(threads));
  std::vector<int64_t> loads(static_cast<size_t>(threads), 0);
  int64_t all = 0;
  for (size_t first = 0, last = chunks; first < last;) {
    const auto next = std::min_element(loads.begin(), loads.end());  // who is done first
    const size_t chunk = takes_first(static_cast<int>(next - loads.begin())) ? first++ : --last;
    const size_t begin = first_item(items, chunk, chunks), end = first_item(items, chunk + 1, chunks);
    for (size_t item = begin; item < end; ++item) {
      const int64_t work = step.work(item);
      *next += work;
      all += work;
    }
  }
  if (all == 0) return 1;
  const int64_t most = *std::max_element(loads.begin(), loads.end());
  return static_cast<double>(most) * threads / static_cast<double>(all);
}

}  // namespace intact
