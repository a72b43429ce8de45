#include "steps/cached_attention.h"

#include <algorithm>
#include <utility>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/float_panels.h"
#include "steps/common/sequences.h"
#include "steps/common/softmax_rows.h"

namespace intact {
namespace {

using namespace tuning::cached_attention;

// One item is some tokens of a sequence, and the heads that share a head of keys: their queries are the rows
// of a matrix. Keys are packed as its right side, values are read where they lie.
class CachedAttention final : public Step {
 public:
  CachedAttention(const FloatGemmOps& gemm, const FloatOps& floats, const TransposeOps& transpose,
                  const CachedAttentionSpec& s)
      : gemm_(gemm),
        floats_(floats),
        transpose_(transpose),
        s_(s),
        sequences_(s.last, s.q.sizes[0]),
        size_(size_of_head(s, s.q)),
        value_size_(size_of_head(s, s.y)),
        keys_(s.kernels, s.keys, static_cast<int64_t>(size_)),
        values_(s.kernels, s.values, static_cast<int64_t>(value_size_)) {
    for (const View* v : {&s.q, &s.keys, &s.values, &s.y}) demand_rows(*v);
    for (const View* v : {&s.q, &s.y}) {
      demand(v->type == Type::f32, "an attention is of float32");
      demand(v->strides[0] % 4 == 0 && v->offset % 4 == 0, "float32 lies at multiples of 4");
    }
    demand(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "heads share heads of keys");
    demand(s.q.sizes[0] == s.y.sizes[0] && s.keys.sizes[0] == s.values.sizes[0], "a row for each token");
    demand(size_ < (1 << 24) && value_size_ < (1 << 24), "a product is too deep");
    const int64_t parts = sequences_.count() * s.kv_heads;
    demand(parts > 0 ? s.keys.sizes[0] % parts == 0 : s.keys.sizes[0] == 0, "as much room for each head");
    if (s.sinks) {
      demand(s.sinks->type == Type::f32 && s.sinks->rank == 1 && s.sinks->sizes[0] == s.heads,
             "a sink for each head");
      reads(*s.sinks);
    }
    room_ = parts > 0 ? s.keys.sizes[0] / parts : 0;
    demand(room_ < (1 << 24) && s.window >= 0, "more keys than a product sums");
    tanh_ = find_function(floats, "tanh");
    demand(tanh_ != nullptr, "there is a hyperbolic tangent");
    group_ = static_cast<size_t>(s.heads / s.kv_heads);
    pitch_ = pitch_of(static_cast<size_t>(room_));
    const auto tokens = static_cast<size_t>(sequences_.tokens());
    block_ = block_of(tokens * static_cast<size_t>(parts) / kLeastItems);
    blocks_ = (tokens + block_ - 1) / block_;
    reads(s.q);
    reads(s.keys);
    reads(s.values);
    reads(s.last);
    writes(s.y);
  }

  std::string name() const override { return name_of(&gemm_) + std::string("+") + name_of(&floats_); }
  size_t items() const override {
    return value_size_ == 0 ? 0 : static_cast<size_t>(sequences_.count() * s_.kv_heads) * blocks_;
  }
  // Later tokens attend to more keys.
  int64_t work(size_t item) const override { return static_cast<int64_t>(item % blocks_ + blocks_); }

  size_t scratch() const override {
    const size_t rows = block_ * group_;
    return align64(4 * rows * sizeof(void*)) + align64(key_floats() * sizeof(float)) +
           align64(value_floats() * sizeof(float)) + align64(stored_floats() * sizeof(float)) +
           rows * pitch_ * sizeof(float);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    for (size_t item = begin; item < end; ++item) {
      const size_t head = item / blocks_;
      const auto sequence = static_cast<int64_t>(head) / s_.kv_heads;
      const size_t first = item % blocks_ * block_, tokens = static_cast<size_t>(sequences_.tokens());
      const auto before = static_cast<size_t>(sequences_.before(memory, sequence, room_));
      if (before + tokens > static_cast<size_t>(room_)) {
        memory.fail();
        return;
      }
      attend(memory, head, {before + first, std::min(block_, tokens - first), sequence}, first, scratch);
    }
  }

 private:
  // Tokens of an item: the position of the first one, and how many.
  struct Tokens {
    size_t position, count;
    int64_t sequence;
  };
  struct Part {
    size_t begin, end;  // keys
  };
  struct Work {
    const float** left;
    float **y, **scores, **parts;
    float *keys, *values;  // packed
    float* floats;  // what a part of a cache stores
  };

  size_t key_floats() const { return (std::min<size_t>(kKeys, pitch_) + gemm_.panel) * size_; }
  size_t value_floats() const {
    const size_t columns = (value_size_ + gemm_.panel - 1) / gemm_.panel * gemm_.panel;
    return values_lie_right() ? 0 : std::min<size_t>(kValues, pitch_) * columns;
  }
  size_t stored_floats() const {
    const size_t keys = keys_.are_floats() ? 0 : std::min<size_t>(kKeys, pitch_) * size_;
    return std::max(keys, values_.are_floats() ? 0 : std::min<size_t>(kValues, pitch_) * value_size_);
  }
  // Registers of 16 floats end with the rows.
  bool values_lie_right() const { return value_size_ % 16 == 0; }

  size_t end_of(const Tokens& t, size_t token) const { return t.position + token + 1; }
  size_t begin_of(const Tokens& t, size_t token) const {
    const auto window = static_cast<size_t>(s_.window), end = end_of(t, token);
    return window == 0 || window >= end ? 0 : end - window;
  }

  // The tokens of an item, about `wanted`.
  size_t block_of(size_t wanted) const {
    const auto tokens = static_cast<size_t>(sequences_.tokens());
    size_t block = std::clamp(wanted, kFewRows / group_, kRows / group_);
    if (s_.window > 0) {  // scores that lie outside of windows are few, and all tokens reach one key at least
      const auto window = static_cast<size_t>(s_.window);
      block = std::min({block, std::max(window / 4, gemm_.rows / group_ + 1), window});
    }
    return std::clamp<size_t>(block, 1, std::max<size_t>(1, tokens));
  }

  // Floats from one row of scores to the next: at multiples of a page all would fall on few sets of a cache.
  static size_t pitch_of(size_t keys) { return align64(keys) + 16; }

  Work lay_out(const Tokens& t, uint8_t* scratch) const {
    const size_t rows = block_ * group_, pitch = pitch_of(end_of(t, t.count - 1));
    Work work{};
    work.left = reinterpret_cast<const float**>(scratch);
    work.y = reinterpret_cast<float**>(scratch) + rows;
    work.scores = work.y + rows;
    work.parts = work.scores + rows;
    scratch += align64(4 * rows * sizeof(void*));
    work.keys = reinterpret_cast<float*>(scratch);
    scratch += align64(key_floats() * sizeof(float));
    work.values = reinterpret_cast<float*>(scratch);
    scratch += align64(value_floats() * sizeof(float));
    work.floats = reinterpret_cast<float*>(scratch);
    scratch += align64(stored_floats() * sizeof(float));
    for (size_t r = 0; r < rows; ++r) work.scores[r] = reinterpret_cast<float*>(scratch) + r * pitch;
    return work;
  }

  void attend(const Memory& memory, size_t head, const Tokens& t, size_t first, uint8_t* scratch) const {
    const Work work = lay_out(t, scratch);
    const size_t group = head % static_cast<size_t>(s_.kv_heads) * group_;
    for (size_t r = 0; r < t.count * group_; ++r) {
      const int64_t row = t.sequence * sequences_.tokens() + static_cast<int64_t>(first + r / group_);
      work.left[r] = row_of<const float>(s_.q, memory, row) + (group + r % group_) * size_;
      work.y[r] = row_of<float>(s_.y, memory, row) + (group + r % group_) * value_size_;
    }
    const auto cache_row = static_cast<int64_t>(head) * room_;
    score(row_of<const uint8_t>(s_.keys, memory, cache_row), t, work);
    const bool has_cap = s_.softcap != 0.0f;
    const float* const sinks = s_.sinks ? s_.sinks->at<const float>(memory) + group : nullptr;
    const bool is_scaled = has_cap || sinks != nullptr;
    softmax_rows(floats_, t.count * group_, is_scaled ? 1.0f : s_.scale, [&](size_t r) {
      const size_t begin = begin_of(t, r / group_), n = end_of(t, r / group_) - begin;
      float* const row = work.scores[r] + begin;
      if (has_cap) cap(row, n);
      if (sinks == nullptr) return ScoreRow{row, n, nullptr};
      if (!has_cap) multiply_row(row, s_.scale, n);
      row[n] = sinks[r % group_];  // behind the keys that the token reaches: no value is multiplied by it
      return ScoreRow{row, n + 1, nullptr};
    });
    sum_values(row_of<const uint8_t>(s_.values, memory, cache_row), t, work);
  }

  // The floats of `count` rows from `first` on, and how far apart they lie: in the cache, or in `y`.
  static std::pair<const float*, size_t> floats_of(const CacheRows& rows, const View& cache,
                                                   const uint8_t* base, size_t first, size_t count,
                                                   size_t size, float* y) {
    const int64_t down = cache.strides[0];
    base += static_cast<int64_t>(first) * down;
    if (rows.are_floats())
      return {reinterpret_cast<const float*>(base), static_cast<size_t>(down) / sizeof(float)};
    rows.read(base, down, count, y);
    return {y, size};
  }

  // Products of queries with keys. Behind the keys that all tokens reach, parts are small, and only tokens
  // that reach them are multiplied.
  void score(const uint8_t* cache, const Tokens& t, const Work& work) const {
    const size_t common = end_of(t, 0), end = end_of(t, t.count - 1);
    const ptrdiff_t offset = 0;
    for (size_t key = begin_of(t, 0), count = 0; key < end; key += count) {
      const size_t panels = key < common ? (common - key) / gemm_.panel : 0;
      count = std::min({std::max<size_t>(panels, 1) * gemm_.panel, kKeys, end - key});
      const auto [keys, down] = floats_of(keys_, s_.keys, cache, key, count, size_, work.floats);
      pack_matrix(gemm_, transpose_, keys, 1, static_cast<ptrdiff_t>(down), size_, count, work.keys);
      size_t from = 0, to = t.count;
      while (end_of(t, from) <= key) ++from;
      while (begin_of(t, to - 1) >= key + count) --to;
      float* const* const scores = work.scores + from * group_;
      for (size_t r = 0; r < (to - from) * group_; ++r) work.parts[r] = scores[r] + key;
      gemm_.multiply({work.left + from * group_, &offset, 1, size_, 1, work.keys, size_ * gemm_.panel,
                      nullptr, false, work.parts, (to - from) * group_, count});
    }
  }

  void cap(float* scores, size_t n) const {
    multiply_row(scores, s_.softcap_scale, n);
    tanh_->function(scores, scores, n);
    multiply_row(scores, s_.softcap, n);
  }

  void multiply_row(float* scores, float factor, size_t n) const {
    floats_.binary[static_cast<size_t>(BinaryKind::mul)](scores, 1, &factor, 0, n, scores);
  }

  void sum_values(const uint8_t* cache, const Tokens& t, const Work& work) const {
    const size_t first = begin_of(t, 0), end = end_of(t, t.count - 1);
    const size_t most = values_.are_floats() && values_lie_right() ? end - first : kValues;
    for (size_t from = first; from < end; from += most) {
      const size_t count = std::min(most, end - from);
      auto [right, down] = floats_of(values_, s_.values, cache, from, count, value_size_, work.floats);
      size_t pitch = gemm_.panel;
      if (!values_lie_right()) {
        gemm_.pack(right, static_cast<ptrdiff_t>(down), 1, count, value_size_, work.values);
        right = work.values;
        pitch = count * gemm_.panel;
        down = gemm_.panel;
      }
      FloatGemm g{};
      g.b = right;
      g.pitch = pitch;
      g.down = down;
      sum_part(t, work, {from, from + count}, g);
    }
  }

  // Adds a part of the keys to tokens: first those of a window that earlier tokens alone reach, then those
  // that all reach, then those that later tokens alone reach.
  void sum_part(const Tokens& t, const Work& work, const Part& part, const FloatGemm& g) const {
    const size_t begin = begin_of(t, 0);
    const Sum sum{t, work, part, g, begin_of(t, t.count - 1) != begin};
    if (sum.is_cut && part.begin == begin) multiply(sum, 0, t.count, {begin, begin}, false);  // zeros
    sum_earlier(sum, 0, t.count, end_of(t, 0));
    sum_later(sum, 0, t.count, end_of(t, 0));
  }

  struct Sum {
    const Tokens& t;
    const Work& work;
    const Part& part;
    const FloatGemm& g;
    bool is_cut;  // tokens begin at different keys
  };

  // Tokens [first, last) and the keys before `end` that they reach; all of them reach the last one.
  void sum_earlier(const Sum& s, size_t first, size_t last, size_t end) const {
    const size_t begin = begin_of(s.t, last - 1);
    if (begin_of(s.t, first) < begin) {
      const size_t middle = (first + last) / 2;
      sum_earlier(s, first, middle, begin);
      sum_earlier(s, middle, last, begin);
    }
    sum_keys(s, first, last, {begin, end});
  }

  // Tokens [first, last) and the keys from `begin` on that they reach; the first one may reach none of them.
  void sum_later(const Sum& s, size_t first, size_t last, size_t begin) const {
    const size_t end = end_of(s.t, first);
    sum_keys(s, first, last, {begin, end});
    if (last - first == 1) return;
    const size_t middle = (first + last) / 2;
    sum_later(s, first, middle, end);
    sum_later(s, middle, last, end);
  }

  void sum_keys(const Sum& s, size_t first, size_t last, const Part& keys) const {
    const size_t from = std::max(keys.begin, s.part.begin), to = std::min(keys.end, s.part.end);
    if (from < to) multiply(s, first, last, {from, to}, s.is_cut || from > begin_of(s.t, 0));
  }

  void multiply(const Sum& s, size_t first, size_t last, const Part& keys, bool more) const {
    const auto offset = static_cast<ptrdiff_t>(keys.begin);
    FloatGemm g = s.g;
    g.a = const_cast<const float* const*>(s.work.scores + first * group_);
    g.offsets = &offset;
    g.runs = 1;
    g.length = keys.end - keys.begin;
    g.step = 1;
    g.b += (keys.begin - s.part.begin) * g.down;
    g.more = more;
    g.y = s.work.y + first * group_;
    g.rows = (last - first) * group_;
    g.columns = value_size_;
    gemm_.multiply(g);
  }

  static size_t size_of_head(const CachedAttentionSpec& s, const View& rows) {
    demand(s.heads > 0 && s.heads < (1 << 24) && rows.rank == 2 && rows.sizes[1] % s.heads == 0,
           "heads of one size");
    return static_cast<size_t>(rows.sizes[1] / s.heads);
  }

  const FloatGemmOps& gemm_;
  const FloatOps& floats_;
  const TransposeOps& transpose_;
  CachedAttentionSpec s_;
  Sequences sequences_;
  size_t size_, value_size_;  // of a head
  CacheRows keys_, values_;
  const NamedFunction* tanh_ = nullptr;
  int64_t room_ = 0;
  size_t group_ = 1, pitch_ = 0, block_ = 1, blocks_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_cached_attention(const FloatGemmOps& gemm, const FloatOps& floats,
                                            const TransposeOps& transpose, const CachedAttentionSpec& spec) {
  return std::make_unique<CachedAttention>(gemm, floats, transpose, spec);
}

}  // namespace intact
