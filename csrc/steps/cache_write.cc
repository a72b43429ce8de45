#include "steps/cache_write.h"

#include <algorithm>
#include <cstring>

#include "steps/common/sequences.h"

namespace intact {
namespace {

class CacheWrite final : public Step {
 public:
  explicit CacheWrite(const CacheWriteSpec& s)
      : s_(s),
        sequences_(s.last, s.tokens.sizes[0]),
        size_(size_of_head(s)),
        stored_(s.kernels, s.cache, static_cast<int64_t>(size_)) {
    demand_rows(s.tokens);
    demand_rows(s.cache);
    demand(s.tokens.type == Type::f32, "tokens are of float32");
    room_ = rows_of_each(s.cache);
    reads(s.tokens);
    reads(s.last);
    if (s.past) {
      demand_rows(*s.past);
      demand(s.past->type == s.cache.type && s.past->sizes[1] == s.cache.sizes[1], "caches are alike");
      old_ = rows_of_each(*s.past);
      demand(old_ <= room_, "a cache does not shrink");
      reads(*s.past);
    }
    writes(s.cache);
  }

  std::string name() const override { return "cache_write"; }
  size_t items() const override { return static_cast<size_t>(sequences_.count() * s_.heads); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    for (auto item = static_cast<int64_t>(begin); item < static_cast<int64_t>(end); ++item) {
      const int64_t sequence = item / s_.heads, head = item % s_.heads;
      keep_old(memory, item);
      const int64_t before = sequences_.before(memory, sequence, room_);
      for (int64_t i = 0; i < sequences_.tokens(); ++i) {
        if (before + i >= room_) {
          memory.fail();
          return;
        }
        const float* const from = row_of<const float>(s_.tokens, memory, sequence * sequences_.tokens() + i) +
                                  head * static_cast<int64_t>(size_);
        stored_.write(from, row_of<uint8_t>(s_.cache, memory, item * room_ + before + i));
      }
    }
  }

 private:
  static size_t size_of_head(const CacheWriteSpec& s) {
    demand(s.heads > 0 && s.heads < (1 << 24) && s.tokens.rank == 2 && s.tokens.sizes[1] % s.heads == 0,
           "heads of one size");
    return static_cast<size_t>(s.tokens.sizes[1] / s.heads);
  }

  int64_t rows_of_each(const View& cache) const {
    const int64_t parts = sequences_.count() * s_.heads;
    demand(parts > 0 ? cache.sizes[0] % parts == 0 : cache.sizes[0] == 0, "as much room for each head");
    return parts > 0 ? cache.sizes[0] / parts : 0;
  }

  // Rows that were there, and zeros behind them.
  void keep_old(const Memory& memory, int64_t item) const {
    const bool is_shared = s_.past && old_ == room_ && s_.past->strides[0] == s_.cache.strides[0] &&
                           s_.past->at<uint8_t>(memory) == s_.cache.at<uint8_t>(memory);
    if (is_shared) return;
    for (int64_t i = 0; i < old_; ++i) {
      std::memcpy(row_of<uint8_t>(s_.cache, memory, item * room_ + i),
                  row_of<const uint8_t>(*s_.past, memory, item * old_ + i), stored_.row_bytes());
    }
    for (int64_t i = old_; i < room_; ++i)
      std::memset(row_of<uint8_t>(s_.cache, memory, item * room_ + i), 0, stored_.row_bytes());
  }

  CacheWriteSpec s_;
  Sequences sequences_;
  size_t size_;  // of a head
  CacheRows stored_;
  int64_t room_ = 0, old_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_cache_write(const CacheWriteSpec& spec) {
  return std::make_unique<CacheWrite>(spec);
}

}  // namespace intact
