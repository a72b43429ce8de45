#include "steps/norms.h"

#include <algorithm>

#include "kernels/registry.h"
#include "steps/walk.h"

namespace intact {
namespace {

constexpr size_t kPiece = 4096;  // elements, at least, of a piece of work

View without_last(View v) {
  demand(v.rank >= 1 && v.rank <= kMaxRank, "rows need an axis to lie along");
  --v.rank;
  return v;
}

size_t length_of(const View& v) {
  demand(v.rank >= 1 && v.rank <= kMaxRank && v.sizes[v.rank - 1] >= 0, "rows need an axis to lie along");
  return static_cast<size_t>(v.sizes[v.rank - 1]);
}

int64_t last_stride(const View& v) { return v.strides[v.rank - 1]; }

// x, and another input that may be missing, to y, and to codes where they are wanted too (of y * factors),
// row by row.
class RowStep : public Step {
 public:
  RowStep(const FloatOps& ops, const RealIn& x, const std::optional<RealIn>& other, const RealOut& y,
          const std::optional<RealOut>& codes = std::nullopt,
          const std::optional<View>& factors = std::nullopt)
      : ops_(ops),
        n_(length_of(y.view)),
        outer_({without_last(x.view), without_last(other.value_or(x).view),
                without_last(codes.value_or(y).view), without_last(y.view)}),
        rows_(n_ == 0 ? 0 : outer_.outer(outer_.rank)),
        each_(std::max<size_t>(1, kPiece / std::max<size_t>(1, n_))),
        x_(x.view),
        other_(other.value_or(x).view),
        codes_(codes.value_or(y).view),
        y_(y.view),
        has_other_(other.has_value()),
        has_codes_(codes.has_value()),
        factors_(factors),
        x_reader_(ops, x, last_stride(x.view)),
        other_reader_(ops, other.value_or(x), last_stride(other_)),
        codes_writer_(ops, codes.value_or(y), last_stride(codes_)),
        writer_(ops, y, last_stride(y.view)) {
    demand_real(x);
    demand_real(other.value_or(x));
    demand_real(y);
    demand_real(codes.value_or(y));
    demand(!codes || (codes->view.type == Type::u8 && y.view.type == Type::f32),
           "codes beside floats are bytes");
    demand_same_sizes(codes_, y.view);
    demand_same_sizes(x.view, y.view);
    demand_same_sizes(other_, y.view);
    demand(elements_of(y.view) < static_cast<size_t>(kMostElements), "rows are too long");
    reads(x.view);
    if (other) reads(other->view);
    if (codes) writes(codes->view);
    writes(y.view);
    if (!factors) return;
    demand(codes.has_value(), "factors are for codes");
    demand_vector(*factors, Type::f32, n_, "one float32 factor for each element of a row");
    reads(*factors);
  }

  size_t items() const override { return (rows_ + each_ - 1) / each_; }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return 3 * row_scratch(n_); }

 protected:
  // body(row of x, to be changed in place; row of the other input or nullptr) returns a factor that is left.
  template <class Body>
  void each(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Body& body) const {
    const RowBuffer spare(scratch, n_, 0), second(scratch, n_, 1), out(scratch, n_, 2);
    const size_t last = std::min(end * each_, rows_);
    Cursor<4> cursor(outer_, outer_.rank, begin * each_);
    for (size_t row = begin * each_; row < last; ++row, cursor.next()) {
      uint8_t* const y = y_.at<uint8_t>(memory) + cursor.offset(3);
      float* const values = writer_.target(y, n_, out);
      x_reader_.copy(x_.at<uint8_t>(memory) + cursor.offset(0), n_, values, spare.bytes());
      const float* other = nullptr;
      if (has_other_) other = other_reader_.row(other_.at<uint8_t>(memory) + cursor.offset(1), n_, second);
      const float factor = body(values, other);
      if (has_codes_) write_codes(memory, values, factor, cursor.offset(2), factors_ ? second : out);
      writer_.finish(values, factor, y, n_, out);
    }
  }

  const FloatOps& ops_;
  size_t n_;

 private:
  // `spare` holds no values.
  void write_codes(const Memory& memory, float* values, float factor, ptrdiff_t at,
                   const RowBuffer& spare) const {
    if (factors_) {
      const auto multiply = ops_.binary[static_cast<size_t>(BinaryKind::mul)];
      multiply(values, 1, factors_->at<float>(memory), 1, n_, spare.floats());
      values = spare.floats();
    }
    codes_writer_.finish(values, factor, codes_.at<uint8_t>(memory) + at, n_, spare);
  }

  Walk<4> outer_;
  size_t rows_, each_;
  View x_, other_, codes_, y_;
  bool has_other_, has_codes_;
  std::optional<View> factors_;
  RowReader x_reader_, other_reader_;
  RowWriter codes_writer_, writer_;
};

class Softmax final : public RowStep {
 public:
  Softmax(const FloatOps& ops, const SoftmaxSpec& s) : RowStep(ops, s.x, s.mask, s.y), gain_(s.gain) {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch,
         [&](float* x, const float* mask) { return ops_.softmax(x, n_, gain_, mask); });
  }

 private:
  float gain_;
};

class LayerNorm final : public RowStep {
 public:
  LayerNorm(const FloatOps& ops, const LayerNormSpec& s)
      : RowStep(ops, s.x, s.residual, s.y, s.codes, s.factors),
        weight_(s.weight),
        bias_(s.bias),
        epsilon_(s.epsilon) {
    for (const auto& parameter : {s.weight, s.bias}) {
      if (!parameter) continue;
      demand_vector(*parameter, Type::f32, n_, "weight and bias have one float32 for each element of a row");
      reads(*parameter);
    }
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const float* weight = weight_ ? weight_->at<float>(memory) : nullptr;
    const float* bias = bias_ ? bias_->at<float>(memory) : nullptr;
    each(memory, begin, end, scratch, [&](float* x, const float* residual) {
      ops_.layer_norm(x, n_, residual, weight, bias, epsilon_);
      return 1.0f;
    });
  }

 private:
  std::optional<View> weight_, bias_;
  float epsilon_;
};

}  // namespace

std::unique_ptr<Step> make_softmax(const FloatOps& ops, const SoftmaxSpec& spec) {
  return std::make_unique<Softmax>(ops, spec);
}

std::unique_ptr<Step> make_layer_norm(const FloatOps& ops, const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(ops, spec);
}

}  // namespace intact
