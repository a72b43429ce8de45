#include "steps/linear_attention.h"

#include <algorithm>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/row_index.h"
#include "steps/common/views.h"

namespace intact {
namespace {

using tuning::linear_attention::kColumns;

constexpr size_t kRegister = 16;  // columns of a matrix that is multiplied where it lies fill such

// One item is some columns of the state of one head, which no other column reads, through all tokens.
class LinearAttention final : public Step {
 public:
  LinearAttention(const FloatGemmOps& gemm, const FloatOps& floats, const LinearAttentionSpec& s)
      : gemm_(gemm), floats_(floats), s_(s) {
    for (const View* v : {&s.q, &s.k, &s.v, &s.y, &s.state}) demand_floats(*v);
    for (const auto* v : {&s.past, &s.decay, &s.beta}) {
      if (*v) demand_floats(**v);
    }
    constexpr int64_t kMost = int64_t{1} << 24;
    demand(0 < s.kv_heads && s.kv_heads < kMost && 0 < s.heads && s.heads < kMost &&
               s.heads % s.kv_heads == 0,
           "heads share heads of keys");
    demand(s.sequences >= 0 && s.sequences < kMost, "too many sequences");
    demand(s.k.sizes[1] % s.kv_heads == 0 && s.v.sizes[1] % s.kv_heads == 0, "heads of one size");
    const int64_t size = s.k.sizes[1] / s.kv_heads, value_size = s.v.sizes[1] / s.kv_heads;
    demand(size <= (1 << 16) && value_size < kMost, "a product is too deep");
    demand(s.q.sizes[1] == s.heads * size && s.y.sizes[1] == s.heads * value_size, "heads of one size");
    const int64_t rows = s.q.sizes[0];
    demand(s.k.sizes[0] == rows && s.v.sizes[0] == rows && s.y.sizes[0] == rows, "a row for each token");
    demand(s.sequences > 0 ? rows % s.sequences == 0 : rows == 0, "as many tokens for each sequence");
    demand_state(s.state, size, value_size);
    if (s.past) demand_state(*s.past, size, value_size);
    if (s.decay) {
      const int64_t columns = s.decay->sizes[1];
      demand(s.decay->sizes[0] == rows && columns % s.kv_heads == 0, "factors for each token");
      factors_ = columns / s.kv_heads;
      demand(factors_ == 1 || factors_ == size || factors_ == size * value_size, "factors for each head");
    }
    if (s.beta) demand(s.beta->sizes[0] == rows && s.beta->sizes[1] == s.kv_heads, "a number for each head");
    tokens_ = s.sequences > 0 ? rows / s.sequences : 0;
    size_ = static_cast<size_t>(size);
    value_size_ = static_cast<size_t>(value_size);
    group_ = static_cast<size_t>(s.heads / s.kv_heads);
    blocks_ = (value_size_ + kColumns - 1) / kColumns;
    for (const View* v : {&s.q, &s.k, &s.v}) reads(*v);
    for (const auto* v : {&s.past, &s.decay, &s.beta}) {
      if (*v) reads(**v);
    }
    writes(s.y);
    writes(s.state);
  }

  std::string name() const override { return name_of(&gemm_) + std::string("+") + name_of(&floats_); }
  size_t items() const override { return static_cast<size_t>(s_.sequences * s_.kv_heads) * blocks_; }
  size_t scratch() const override {
    const size_t rows = std::max(size_, group_);
    return 2 * align64(rows * sizeof(void*)) + align64(size_ * kColumns * sizeof(float)) +
           (2 + group_) * align64(kColumns * sizeof(float));
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    for (size_t item = begin; item < end; ++item) {
      const size_t head = item / blocks_, first = item % blocks_ * kColumns;
      const size_t count = std::min(kColumns, value_size_ - first);
      walk(memory, head, {first, count, (count + kRegister - 1) / kRegister * kRegister}, lay_out(scratch));
    }
  }

 private:
  // Columns of a state: `wide` is how many lie in scratch.
  struct Columns {
    size_t first, count, wide;
  };
  struct Work {
    const float** left;
    float** right;
    float *state, *held, *added, *read;
  };

  static void demand_floats(const View& v) {
    demand_rows(v);
    demand(v.type == Type::f32, "a linear attention is of float32");
    demand(v.strides[0] % 4 == 0 && v.offset % 4 == 0, "float32 lies at multiples of 4");
  }
  void demand_state(const View& v, int64_t size, int64_t value_size) const {
    demand(v.sizes[0] == s_.sequences * s_.kv_heads * size && v.sizes[1] == value_size,
           "a state is [sequences * heads * size, value size]");
  }

  Work lay_out(uint8_t* scratch) const {
    const size_t rows = std::max(size_, group_);
    const auto take = [&](size_t bytes) {
      uint8_t* const from = scratch;
      scratch += align64(bytes);
      return from;
    };
    Work work{};
    work.left = reinterpret_cast<const float**>(take(rows * sizeof(void*)));
    work.right = reinterpret_cast<float**>(take(rows * sizeof(void*)));
    work.state = reinterpret_cast<float*>(take(size_ * kColumns * sizeof(float)));
    work.held = reinterpret_cast<float*>(take(kColumns * sizeof(float)));
    work.added = reinterpret_cast<float*>(take(kColumns * sizeof(float)));
    work.read = reinterpret_cast<float*>(take(group_ * align64(kColumns * sizeof(float))));
    return work;
  }

  void walk(const Memory& memory, size_t head, const Columns& columns, const Work& work) const {
    const auto kv_heads = static_cast<size_t>(s_.kv_heads);
    const auto row = static_cast<int64_t>(head / kv_heads) * tokens_;
    load_state(memory, head, columns, work);
    for (int64_t token = 0; token < tokens_; ++token)
      take_in(memory, row + token, head % kv_heads, columns, work);
    for (size_t i = 0; i < size_; ++i) {
      float* const to = row_of<float>(s_.state, memory, static_cast<int64_t>(head * size_ + i));
      std::memcpy(to + columns.first, work.state + i * columns.wide, columns.count * sizeof(float));
    }
  }

  void load_state(const Memory& memory, size_t head, const Columns& columns, const Work& work) const {
    std::fill_n(work.state, size_ * columns.wide, 0.0f);
    if (!s_.past) return;
    for (size_t i = 0; i < size_; ++i) {
      const float* const from = row_of<const float>(*s_.past, memory, static_cast<int64_t>(head * size_ + i));
      std::memcpy(work.state + i * columns.wide, from + columns.first, columns.count * sizeof(float));
    }
  }

  void take_in(const Memory& memory, int64_t row, size_t head, const Columns& columns,
               const Work& work) const {
    const size_t wide = columns.wide;
    const float* const key = row_of<const float>(s_.k, memory, row) + head * size_;
    const float* const value = row_of<const float>(s_.v, memory, row) + head * value_size_ + columns.first;
    if (s_.decay) fade(row_of<const float>(*s_.decay, memory, row), head, columns, work);
    std::fill_n(work.added, wide, 0.0f);
    std::memcpy(work.added, value, columns.count * sizeof(float));
    if (s_.beta) {
      work.left[0] = key;
      work.right[0] = work.held;
      multiply(work, size_, 1, work.state, wide, false);
      const float* const beta = row_of<const float>(*s_.beta, memory, row) + head;
      binary(BinaryKind::sub)(work.added, 1, work.held, 1, wide, work.added);
      binary(BinaryKind::mul)(work.added, 1, beta, 0, wide, work.added);
    }
    for (size_t i = 0; i < size_; ++i) {
      work.left[i] = key + i;
      work.right[i] = work.state + i * wide;
    }
    multiply(work, 1, size_, work.added, wide, true);
    const float* const query = row_of<const float>(s_.q, memory, row) + head * group_ * size_;
    for (size_t g = 0; g < group_; ++g) {
      work.left[g] = query + g * size_;
      work.right[g] = work.read + g * kColumns;
    }
    multiply(work, size_, group_, work.state, wide, false);
    float* const y = row_of<float>(s_.y, memory, row) + head * group_ * value_size_ + columns.first;
    for (size_t g = 0; g < group_; ++g)
      binary(BinaryKind::mul)(work.right[g], 1, &s_.scale, 0, columns.count, y + g * value_size_);
  }

  // Multiplies the state by its factors, of which there is one for each head, row or element.
  void fade(const float* factors, size_t head, const Columns& columns, const Work& work) const {
    factors += head * static_cast<size_t>(factors_);
    if (factors_ == 1) {
      binary(BinaryKind::mul)(work.state, 1, factors, 0, size_ * columns.wide, work.state);
      return;
    }
    const bool are_rows = factors_ == static_cast<int64_t>(size_);
    for (size_t i = 0; i < size_; ++i) {
      float* const own = work.state + i * columns.wide;
      const float* const own_factors = are_rows ? factors + i : factors + i * value_size_ + columns.first;
      binary(BinaryKind::mul)(own, 1, own_factors, are_rows ? 0 : 1, columns.count, own);
    }
  }

  // Rows at `work.left`, each of `length` neighbours, by b [length, wide], into the rows at `work.right`.
  void multiply(const Work& work, size_t length, size_t rows, const float* b, size_t wide, bool more) const {
    const ptrdiff_t offset = 0;
    FloatGemm g{};
    g.a = work.left;
    g.offsets = &offset;
    g.runs = 1;
    g.length = length;
    g.step = 1;
    g.b = b;
    g.pitch = gemm_.panel;
    g.down = wide;
    g.more = more;
    g.y = work.right;
    g.rows = rows;
    g.columns = wide;
    gemm_.multiply(g);
  }

  auto binary(BinaryKind kind) const -> decltype(FloatOps::binary[0] + 0) {
    return floats_.binary[static_cast<size_t>(kind)];
  }

  const FloatGemmOps& gemm_;
  const FloatOps& floats_;
  LinearAttentionSpec s_;
  size_t size_ = 0, value_size_ = 0, group_ = 1, blocks_ = 0;
  int64_t tokens_ = 0, factors_ = 0;  // factors of a head
};

}  // namespace

std::unique_ptr<Step> make_linear_attention(const FloatGemmOps& gemm, const FloatOps& floats,
                                            const LinearAttentionSpec& spec) {
  return std::make_unique<LinearAttention>(gemm, floats, spec);
}

}  // namespace intact
