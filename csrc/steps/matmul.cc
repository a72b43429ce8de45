#include "steps/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::products;

struct Axes {
  size_t rows, columns, k;
};

Axes axes_of(const MatMulSpec& s) {
  const int rank = s.y.rank;
  demand(rank >= 2 && rank <= kMaxRank && s.a.rank == rank && s.b.rank == rank,
         "a product needs matrices, with the same number of axes");
  for (const View* v : {&s.a, &s.b, &s.y}) elements_of(*v);
  const auto size = [rank](const View& v, int axis) { return v.sizes[rank - 2 + axis]; };
  demand(size(s.a, 0) == size(s.y, 0) && size(s.b, 1) == size(s.y, 1) && size(s.a, 1) == size(s.b, 0),
         "matrices do not fit each other");
  demand(size(s.a, 1) < (1 << 24), "a product is too deep");
  return {static_cast<size_t>(size(s.y, 0)), static_cast<size_t>(size(s.y, 1)),
          static_cast<size_t>(size(s.a, 1))};
}

class MatMul final : public Step {
 public:
  MatMul(const MatMulOps& ops, const MatMulSpec& s)
      : ops_(ops),
        s_(s),
        axes_(axes_of(s)),
        batch_({leading(s.a), leading(s.b), leading(s.y)}),
        k_(padded(axes_.k, ops.depth)),
        block_(std::min(axes_.rows, kMatMulRows)),
        blocks_(block_ == 0 ? 0 : (axes_.rows + block_ - 1) / block_) {
    check_product(s_);
    reads(s.a);
    reads(s.b);
    writes(s.y);
  }

  size_t items() const override { return axes_.columns == 0 ? 0 : batch_.outer(batch_.rank) * blocks_; }

  std::string name() const override { return name_of(&ops_); }

  size_t scratch() const override {
    const size_t codes = a_bytes() + padded(k_ * ops_.columns * ops_.element, 64);
    const size_t terms = padded(block_ * 4, 64) + padded(ops_.columns * 4, 64);
    return codes + terms + 2 * sums_bytes();
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    for (size_t item = begin; item < end; ++item) {
      const Cursor<3> at(batch_, batch_.rank, item / blocks_);
      const size_t first = item % blocks_ * block_;
      const size_t rows = std::min(block_, axes_.rows - first);
      const uint8_t* a = s_.a.at<uint8_t>(memory) + at.offset(0) + stride(s_.a, 0) * first_of(first);
      uint8_t* y = s_.y.at<uint8_t>(memory) + at.offset(2) + stride(s_.y, 0) * first_of(first);
      multiply({a, stride(s_.a, 0), stride(s_.a, 1), rows, axes_.k}, s_.b.at<uint8_t>(memory) + at.offset(1),
               y, scratch);
    }
  }

 private:
  struct Scratch {
    uint8_t *a, *b;
    int32_t *a_terms, *b_terms, *sums;
    uint8_t* row;
  };

  static ptrdiff_t first_of(size_t row) { return static_cast<ptrdiff_t>(row); }
  static ptrdiff_t stride(const View& v, int axis) {
    return static_cast<ptrdiff_t>(v.strides[v.rank - 2 + axis]);
  }
  size_t a_bytes() const { return padded(block_ * k_ * ops_.element, 64); }
  size_t sums_bytes() const { return padded(ops_.rows * ops_.columns * sizeof(int32_t), 64); }

  Scratch cut(uint8_t* scratch) const {
    Scratch s;
    s.a = scratch;
    s.b = s.a + a_bytes();
    s.a_terms = reinterpret_cast<int32_t*>(s.b + padded(k_ * ops_.columns * ops_.element, 64));
    s.b_terms = s.a_terms + padded(block_, 16);
    s.sums = s.b_terms + padded(ops_.columns, 16);
    s.row = reinterpret_cast<uint8_t*>(s.sums) + sums_bytes();
    return s;
  }

  void multiply(const MatMulSide& a, const uint8_t* b, uint8_t* y, uint8_t* scratch) const {
    const Scratch s = cut(scratch);
    ops_.pack_a(a, s_.zeros, s.a, s.a_terms);
    for (size_t j = 0; j < axes_.columns; j += ops_.columns) {
      const size_t columns = std::min(ops_.columns, axes_.columns - j);
      const ptrdiff_t at = first_of(j);
      ops_.pack_b({b + stride(s_.b, 1) * at, stride(s_.b, 1), stride(s_.b, 0), columns, axes_.k}, s_.zeros,
                  s.b, s.b_terms);
      for (size_t i = 0; i < a.lines; i += ops_.rows) {
        const size_t rows = std::min(ops_.rows, a.lines - i);
        ops_.tile(s.a + i * k_ * ops_.element, s.a_terms + i, rows, s.b, s.b_terms, k_, s.sums);
        for (size_t r = 0; r < rows; ++r) {
          finish(s.sums + r * ops_.columns, columns,
                 y + stride(s_.y, 0) * first_of(i + r) + stride(s_.y, 1) * at, s.row);
        }
      }
    }
  }

  void finish(const int32_t* sums, size_t n, uint8_t* y, uint8_t* row) const {
    const size_t size = bytes_of(s_.y.type);
    const bool dense = n < 2 || stride(s_.y, 1) == static_cast<ptrdiff_t>(size);
    uint8_t* const to = dense ? y : row;
    write_sums(ops_, s_, sums, n, to);
    for (size_t j = 0; !dense && j < n; ++j)
      std::memcpy(y + stride(s_.y, 1) * first_of(j), row + j * size, size);
  }

  const MatMulOps& ops_;
  const MatMulSpec s_;
  Axes axes_;
  Walk<3> batch_;
  size_t k_, block_, blocks_;
};

}  // namespace

void check_product(const MatMulSpec& s) {
  demand(s.a.type == Type::u8 && s.b.type == Type::u8, "codes are bytes");
  demand(0 <= s.zeros.a && s.zeros.a <= 255 && 0 <= s.zeros.b && s.zeros.b <= 255,
         "a zero point is out of range");
  check_ends(*s.epilogue, s.y, {});
}

std::shared_ptr<const EpilogueSpec> settle_product(EpilogueSpec e) {
  check_epilogue(e, 1, true);
  demand(std::isfinite(e.multiplier[0]), "a multiplier is not finite");
  demand(e.bias[0] == 0 && e.correction[0] == 0 && !e.residual && e.function == nullptr && e.slopes.empty(),
         "a product of activations has a multiplier, a gain and bounds alone");
  demand(e.gains.empty() || e.shifts[0] == 0, "a product of activations has no shift");
  demand(e.gains.empty() || e.quotient == 1, "a product of activations has a gain or a quotient");
  demand(e.quotient == 1 || e.floats || e.divides, "codes of a quotient are divided");
  demand(!e.divides || e.ops != nullptr, "codes are divided by the kernel of floats");
  settle_ends(e);
  return std::make_shared<const EpilogueSpec>(std::move(e));
}

namespace {

// How sums become reals. A quotient whose inverse is exact becomes a gain, which is the same and fast.
MatMulReals reals_of(const EpilogueSpec& e) {
  MatMulReals reals{e.multiplier[0], e.gains.empty() ? 1.0f : e.gains[0], e.quotient, e.real_low,
                    e.real_high};
  int exponent = 0;
  const float inverse = 1 / e.quotient;
  if (std::fabs(std::frexp(e.quotient, &exponent)) == 0.5f && std::isfinite(inverse)) {
    reals.gain *= inverse;  // one of both is 1
    reals.quotient = 1;
  }
  return reals;
}

}  // namespace

void write_sums(const MatMulOps& ops, const MatMulSpec& s, const int32_t* sums, size_t n, uint8_t* to) {
  const EpilogueSpec& e = *s.epilogue;
  if (e.floats) return ops.floats(sums, n, reals_of(e), reinterpret_cast<float*>(to));
  if (!e.divides || (e.bounded && e.gains.empty() && e.quotient == 1)) {
    return ops.codes(sums, n, e.multiplier[0], e.divisor, e.grid(), to);
  }
  constexpr size_t kAtOnce = 64;
  alignas(64) float some_reals[kAtOnce];
  const MatMulReals reals = reals_of(e);
  for (size_t i = 0; i < n; i += kAtOnce) {
    const size_t some = std::min(kAtOnce, n - i);
    ops.floats(sums + i, some, reals, some_reals);
    e.ops->quantize(some_reals, some, 1.0f, e.scale, e.grid(), to + i);
  }
}

std::unique_ptr<Step> make_matmul(const MatMulOps& ops, const MatMulSpec& spec) {
  return std::make_unique<MatMul>(ops, spec);
}

}  // namespace intact
