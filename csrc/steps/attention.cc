#include "steps/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/row_reader.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::products;

size_t size_of(const View& v, int axis) { return static_cast<size_t>(v.sizes[v.rank - 2 + axis]); }
ptrdiff_t stride_of(const View& v, int axis) { return static_cast<ptrdiff_t>(v.strides[v.rank - 2 + axis]); }
ptrdiff_t signed_of(size_t n) { return static_cast<ptrdiff_t>(n); }

void check_product(const MatMulSpec& s, const char* what) {
  for (const View* v : {&s.a, &s.b, &s.y}) {
    elements_of(*v);
    demand(v->rank >= 2 && v->rank == s.y.rank, what);
  }
  demand(size_of(s.a, 0) == size_of(s.y, 0) && size_of(s.b, 1) == size_of(s.y, 1) &&
             size_of(s.a, 1) == size_of(s.b, 0) && size_of(s.a, 1) < (1 << 24),
         what);
  check_product(s);
}

// The right side of a product, packed as panels in scratch.
struct Panels {
  size_t lines, k, count, bytes;  // columns, padded depth, panels, bytes of one

  Panels(const MatMulOps& ops, size_t lines_, size_t depth)
      : lines(lines_),
        k(padded(depth, ops.depth)),
        count((lines_ + ops.columns - 1) / ops.columns),
        bytes(padded(k * ops.columns * ops.element, 64)) {}
  size_t all() const { return count * bytes; }
  size_t terms(const MatMulOps& ops) const { return count * padded(ops.columns * sizeof(int32_t), 64); }
};

class Attention final : public Step {
 public:
  Attention(const MatMulOps& matmul, const FloatOps& floats, const AttentionSpec& s)
      : ops_(matmul),
        floats_(floats),
        s_(checked(s)),
        rows_(size_of(s.scores.a, 0)),
        tokens_(size_of(s.scores.b, 1)),
        depth_(size_of(s.scores.a, 1)),
        width_(size_of(s.product.y, 1)),
        outer_({leading(s.scores.a), leading(s.scores.b), leading(s.product.b),
                leading(s.mask ? s.mask->view : s.scores.a), leading(s.product.y)}),
        keys_(matmul, tokens_, depth_),
        values_(matmul, width_, tokens_),
        block_(std::min(rows_, kQueries)),
        blocks_(block_ == 0 ? 0 : (rows_ + block_ - 1) / block_),
        mask_(floats, s.mask.value_or(RealIn{}), s.mask ? stride_of(s.mask->view, 1) : 4) {
    reads(s.scores.a);
    reads(s.scores.b);
    reads(s.product.b);
    if (s.mask) reads(s.mask->view);
    writes(s.product.y);
  }

  size_t items() const override {
    return width_ == 0 || tokens_ == 0 ? 0 : outer_.outer(outer_.rank) * blocks_;
  }

  std::string name() const override { return name_of(&ops_) + std::string("+") + name_of(&floats_); }
  std::vector<Loop> loops() const override {
    const auto products = [this](const Panels& p) {
      return static_cast<int64_t>(outer_.outer(outer_.rank) * rows_ * p.count * ops_.columns * p.k);
    };
    return {{"scores", products(keys_)}, {"values", products(values_)}};
  }

  size_t scratch() const override {
    Cut cut(nullptr);
    lay_out(cut);
    return cut.used;
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    Cut cut(scratch);
    const Scratch s = lay_out(cut);
    for (size_t item = begin; item < end; ++item) {
      const Cursor<5> at(outer_, outer_.rank, item / blocks_);
      const size_t first = item % blocks_ * block_;
      pack(s_.scores, s_.scores.b.at<uint8_t>(memory) + at.offset(1), keys_, s.keys, s.key_terms);
      pack(s_.product, s_.product.b.at<uint8_t>(memory) + at.offset(2), values_, s.values, s.value_terms);
      const ptrdiff_t row = signed_of(first);
      const uint8_t* mask = nullptr;
      if (s_.mask)
        mask = s_.mask->view.at<uint8_t>(memory) + at.offset(3) + stride_of(s_.mask->view, 0) * row;
      attend(s, s_.scores.a.at<uint8_t>(memory) + at.offset(0) + stride_of(s_.scores.a, 0) * row, mask,
             s_.product.y.at<uint8_t>(memory) + at.offset(4) + stride_of(s_.product.y, 0) * row,
             std::min(block_, rows_ - first));
    }
  }

 private:
  // Allocates parts of scratch; with nullptr it only counts bytes.
  struct Cut {
    explicit Cut(uint8_t* from) : memory(from) {}
    template <class T>
    T* take(size_t bytes) {
      uint8_t* const piece = memory ? memory + used : nullptr;
      used += padded(bytes, 64);
      return reinterpret_cast<T*>(piece);
    }
    uint8_t* memory;
    size_t used = 0;
  };

  struct Scratch {
    uint8_t *keys, *values, *queries, *packed;
    int32_t *key_terms, *value_terms, *query_terms, *packed_terms, *sums;
    float* scores;                   // [ops.rows][pitch()]
    uint8_t *codes, *probabilities;  // a row of codes; [ops.rows][tokens]
    uint8_t *mask, *row;
  };

  static const AttentionSpec& checked(const AttentionSpec& s) {
    check_product(s.scores, "the scores' matrices do not fit each other");
    check_product(s.product, "the values' matrices do not fit the scores");
    demand(s.scores.y.rank == s.product.y.rank, "scores and values have the same number of axes");
    demand_same_sizes(s.scores.y, s.product.a);
    demand(is_sound(s.probabilities), "the output's grid is not within bytes");
    demand(std::isfinite(s.probability_scale) && s.probability_scale > 0, "a scale is not positive");
    demand(s.scores.y.type == Type::f32 || (std::isfinite(s.scale) && s.scale > 0),
           "a scale is not positive");
    if (s.mask) {
      demand_real(*s.mask);
      demand_same_sizes(s.mask->view, s.scores.y);
    }
    return s;
  }

  size_t pitch() const { return padded(keys_.count * ops_.columns, kScorePitch); }

  Scratch lay_out(Cut& cut) const {
    Scratch s;
    s.keys = cut.take<uint8_t>(keys_.all());
    s.values = cut.take<uint8_t>(values_.all());
    s.queries = cut.take<uint8_t>(block_ * keys_.k * ops_.element);
    s.packed = cut.take<uint8_t>(ops_.rows * values_.k * ops_.element);
    s.key_terms = cut.take<int32_t>(keys_.terms(ops_));
    s.value_terms = cut.take<int32_t>(values_.terms(ops_));
    s.query_terms = cut.take<int32_t>(block_ * sizeof(int32_t));
    s.packed_terms = cut.take<int32_t>(ops_.rows * sizeof(int32_t));
    s.sums = cut.take<int32_t>(ops_.rows * ops_.columns * sizeof(int32_t));
    s.scores = cut.take<float>(ops_.rows * pitch() * sizeof(float));
    s.codes = cut.take<uint8_t>(ops_.columns);
    s.probabilities = cut.take<uint8_t>(ops_.rows * tokens_);
    s.mask = cut.take<uint8_t>(s_.mask ? row_scratch(tokens_) : 0);
    s.row = cut.take<uint8_t>(ops_.columns * sizeof(float));
    return s;
  }

  size_t term_pitch() const { return padded(ops_.columns, 16); }

  void pack(const MatMulSpec& side, const uint8_t* b, const Panels& panels, uint8_t* to,
            int32_t* terms) const {
    for (size_t p = 0; p < panels.count; ++p) {
      const size_t from = p * ops_.columns, lines = std::min(ops_.columns, panels.lines - from);
      ops_.pack_b({b + stride_of(side.b, 1) * signed_of(from), stride_of(side.b, 1), stride_of(side.b, 0),
                   lines, size_of(side.b, 0)},
                  side.zeros, to + p * panels.bytes, terms + p * term_pitch());
    }
  }

  void attend(const Scratch& s, const uint8_t* a, const uint8_t* mask, uint8_t* y, size_t rows) const {
    ops_.pack_a({a, stride_of(s_.scores.a, 0), stride_of(s_.scores.a, 1), rows, depth_}, s_.scores.zeros,
                s.queries, s.query_terms);
    for (size_t i = 0; i < rows; i += ops_.rows) {
      const size_t n = std::min(ops_.rows, rows - i);
      score(s, i, n);
      for (size_t r = 0; r < n; ++r) shift(s, mask, i + r, s.scores + r * pitch());
      floats_.softmax_codes(s.scores, n, pitch(), tokens_, s_.probability_scale, s_.probabilities,
                            s.probabilities);
      weigh(s, n, y + stride_of(s_.product.y, 0) * signed_of(i));
    }
  }

  // x * gain + mask, in the order of operations of softmax.
  void shift(const Scratch& s, const uint8_t* mask, size_t row, float* x) const {
    const auto combine = [&](BinaryKind kind, const float* y, size_t step) {
      floats_.binary[static_cast<size_t>(kind)](x, 1, y, step, tokens_, x);
    };
    if (s_.gain != 1.0f) combine(BinaryKind::mul, &s_.gain, 0);
    if (mask == nullptr) return;
    const uint8_t* const from = mask + stride_of(s_.mask->view, 0) * signed_of(row);
    combine(BinaryKind::add, mask_.row(from, tokens_, RowBuffer(s.mask, tokens_, 0)), 1);
  }

  // Computes rows of scores as floats.
  void score(const Scratch& s, size_t from, size_t rows) const {
    for (size_t p = 0; p < keys_.count; ++p) {
      ops_.tile(s.queries + from * keys_.k * ops_.element, s.query_terms + from, rows,
                s.keys + p * keys_.bytes, s.key_terms + p * term_pitch(), keys_.k, s.sums);
      for (size_t r = 0; r < rows; ++r) {
        const int32_t* const sums = s.sums + r * ops_.columns;
        float* const to = s.scores + r * pitch() + p * ops_.columns;
        const EpilogueSpec& e = *s_.scores.epilogue;
        write_sums(ops_, s_.scores, sums, ops_.columns, e.floats ? reinterpret_cast<uint8_t*>(to) : s.codes);
        if (!e.floats) floats_.dequantize(s.codes, ops_.columns, e.zero_point, s_.scale, to);
      }
    }
  }

  // Multiplies rows of probabilities by the values.
  void weigh(const Scratch& s, size_t rows, uint8_t* y) const {
    const View& out = s_.product.y;
    const size_t size = bytes_of(out.type);
    ops_.pack_a({s.probabilities, signed_of(tokens_), 1, rows, tokens_}, s_.product.zeros, s.packed,
                s.packed_terms);
    for (size_t p = 0; p < values_.count; ++p) {
      const size_t from = p * ops_.columns, n = std::min(ops_.columns, width_ - from);
      ops_.tile(s.packed, s.packed_terms, rows, s.values + p * values_.bytes,
                s.value_terms + p * term_pitch(), values_.k, s.sums);
      for (size_t r = 0; r < rows; ++r) {
        uint8_t* const to = y + stride_of(out, 0) * signed_of(r) + stride_of(out, 1) * signed_of(from);
        const bool dense = n < 2 || stride_of(out, 1) == signed_of(size);
        write_sums(ops_, s_.product, s.sums + r * ops_.columns, n, dense ? to : s.row);
        for (size_t j = 0; !dense && j < n; ++j) {
          std::memcpy(to + stride_of(out, 1) * signed_of(j), s.row + j * size, size);
        }
      }
    }
  }

  const MatMulOps& ops_;
  const FloatOps& floats_;
  const AttentionSpec s_;
  size_t rows_, tokens_, depth_, width_;
  Walk<5> outer_;
  Panels keys_, values_;
  size_t block_, blocks_;
  RowReader mask_;
};

}  // namespace

std::unique_ptr<Step> make_attention(const MatMulOps& matmul, const FloatOps& floats,
                                     const AttentionSpec& spec) {
  return std::make_unique<Attention>(matmul, floats, spec);
}

}  // namespace intact
