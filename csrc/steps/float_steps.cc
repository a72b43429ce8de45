#include "steps/float_steps.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/column_blocks.h"
#include "steps/row_reader.h"
#include "steps/row_writer.h"
#include "steps/walk.h"

namespace intact {
namespace {

using namespace tuning::float_steps;

constexpr float kMostSteps = 65535.0f;  // from zero, on a grid of 16 bits

// Dense rows of floats from inputs to y. Where y's innermost axis is short, or an input is dense along
// another one (planes of a picture that is written pixel by pixel), a row is a block of both inner axes.
template <size_t kInputs>
class FloatRows : public Step {
 public:
  FloatRows(const FloatOps& ops, const TransposeOps& turn, const std::array<RealIn, kInputs>& xs,
            const RealOut& y)
      : ops_(ops), y_(y.view), walk_(views_of(xs, y)), writer_(ops, y, inner(kInputs)) {
    demand_real(y);
    for (size_t v = 0; v < kInputs; ++v) {
      demand_real(xs[v]);
      reads(xs[v].view);
    }
    writes(y_);
    in_blocks_ = pays(xs);
    if (in_blocks_) columns_ = walk_.size(walk_.rank - 1);
    const int axis = walk_.rank - (in_blocks_ ? 2 : 1);
    rows_ = Rows(walk_.outer(axis), walk_.size(axis), kChunk / columns_);
    inputs_.reserve(kInputs);
    for (size_t v = 0; v < kInputs; ++v) {
      const bool dense = !in_blocks_ || is_even(v);
      inputs_.push_back({xs[v].view, dense, RowReader(ops, xs[v], inner(v)),
                         ColumnReader(ops, turn, xs[v], outer(v), inner(v))});
    }
  }

  size_t items() const override { return rows_.items(); }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return (kInputs + 1) * row_scratch(kChunk); }

 protected:
  // body(the inputs' rows, n, y, a buffer for what is not y's own).
  template <class Body>
  void each(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Body& body) const {
    const RowBuffer out(scratch, kChunk, kInputs);
    visit_rows(walk_, walk_.rank - (in_blocks_ ? 2 : 1), rows_, begin, end, [&](const auto& at, size_t n) {
      std::array<const float*, kInputs> rows;
      for (size_t v = 0; v < kInputs; ++v) {
        const RowBuffer buffer(scratch, kChunk, v);
        rows[v] = row(inputs_[v], inputs_[v].view.template at<uint8_t>(memory) + at[v], n, buffer);
      }
      body(rows, n * columns_, y_.at<uint8_t>(memory) + at[kInputs], out);
    });
  }
  // Whether an input has an element for each of y's, not one for all of a row.
  bool moves(size_t input) const { return !inputs_[input].dense || inner(input) != 0; }
  const RowWriter& writer() const { return writer_; }

 private:
  struct Input {
    View view;
    bool dense;  // rows as y's are
    RowReader row;
    ColumnReader block;
  };

  static std::array<View, kInputs + 1> views_of(const std::array<RealIn, kInputs>& xs, const RealOut& y) {
    std::array<View, kInputs + 1> views;
    for (size_t v = 0; v < kInputs; ++v) views[v] = xs[v].view;
    views[kInputs] = y.view;
    return views;
  }

  int64_t inner(size_t view) const { return walk_.strides[walk_.rank - 1][view]; }
  int64_t outer(size_t view) const { return walk_.rank < 2 ? 0 : walk_.strides[walk_.rank - 2][view]; }
  // Whether the two innermost axes are one, for a view.
  bool is_even(size_t view) const {
    return outer(view) == inner(view) * static_cast<int64_t>(walk_.size(walk_.rank - 1));
  }

  bool pays(const std::array<RealIn, kInputs>& xs) const {
    if (walk_.rank < 2 || !walk_.dense(kInputs) || !is_even(kInputs)) return false;
    const size_t columns = walk_.size(walk_.rank - 1);
    if (walk_.size(walk_.rank - 2) < kFewestShort || columns > kMostShort) return false;
    if (columns <= kShortRow) return true;
    for (size_t v = 0; v < kInputs; ++v) {
      const auto unit = static_cast<int64_t>(bytes_of(xs[v].view.type));
      if (outer(v) == unit && inner(v) != unit && inner(v) != 0) return true;
    }
    return false;
  }

  const float* row(const Input& input, const uint8_t* x, size_t n, const RowBuffer& buffer) const {
    if (input.dense) return input.row.row(x, input.row.stride() == 0 ? 1 : n * columns_, buffer);
    input.block.read(x, n, columns_, buffer.floats(), buffer.bytes());
    return buffer.floats();
  }

  const FloatOps& ops_;
  View y_;
  Walk<kInputs + 1> walk_;
  bool in_blocks_;
  size_t columns_ = 1;  // of a block
  Rows rows_;
  std::vector<Input> inputs_;
  RowWriter writer_;
};

// y = f(x), f of rows: (x, n, y).
template <class F>
class Map final : public FloatRows<1> {
 public:
  Map(const FloatOps& ops, const TransposeOps& turn, const RealIn& x, const RealOut& y, const F& function)
      : FloatRows(ops, turn, {x}, y), function_(function) {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& rows, size_t n, uint8_t* y, const RowBuffer& out) {
      float* const to = writer().target(y, n, out);
      function_(rows[0], n, to);
      writer().finish(to, 1.0f, y, n, out);
    });
  }

 private:
  F function_;
};

// Bytes of f(x), in one pass.
class Curve final : public FloatRows<1> {
 public:
  Curve(const FloatOps& ops, const TransposeOps& turn, const RealIn& x, const RealOut& y, CurveFunction curve)
      : FloatRows(ops, turn, {x}, y), curve_(curve), codes_{1.0f, 0.0f, y.scale, y.grid} {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& rows, size_t n, uint8_t* y, const RowBuffer& out) {
      writer().bytes(y, n, out, [&](uint8_t* to) { curve_(rows[0], n, codes_, to); });
    });
  }

 private:
  CurveFunction curve_;
  CurveCodes codes_;
};

class Binary final : public FloatRows<2> {
 public:
  Binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& s)
      : FloatRows(ops, turn, {s.a, s.b}, s.y), combine_(ops.binary[static_cast<size_t>(s.kind)]) {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& rows, size_t n, uint8_t* y, const RowBuffer& out) {
      float* const to = writer().target(y, n, out);
      combine_(rows[0], moves(0), rows[1], moves(1), n, to);
      writer().finish(to, 1.0f, y, n, out);
    });
  }

 private:
  void (*combine_)(const float*, size_t, const float*, size_t, size_t, float*);
};

// As Binary, where one operand has one short row for many neighbouring rows of the others: a number for each
// channel of an image. It is repeated in scratch, so that rows are long.
class Repeating final : public Step {
 public:
  // How many elements the row has that an operand repeats; 0 where none does, or it is long enough.
  static size_t length(const Walk<3>& walk, size_t operand) {
    if (walk.elements == 0 || walk.rank < 2) return 0;
    const auto &inner = walk.strides[walk.rank - 1], &outer = walk.strides[walk.rank - 2];
    const size_t n = walk.size(walk.rank - 1), other = 1 - operand;
    const auto even = [&](size_t v) {
      return outer[v] == inner[v] * static_cast<int64_t>(n) && inner[v] != 0;
    };
    return 2 * n <= kRepeatedFloats && outer[operand] == 0 && inner[operand] != 0 && even(other) && even(2)
               ? n
               : 0;
  }

  Repeating(const FloatOps& ops, const BinarySpec& s, const Walk<3>& walk, size_t operand)
      : ops_(ops),
        s_(s),
        walk_(walk),
        operand_(operand),
        length_(length(walk, operand)),
        rows_(walk.outer(walk.rank - 2), walk.size(walk.rank - 2), kRepeatedFloats / length_),
        repeated_(ops, operand == 0 ? s.a : s.b, walk.strides[walk.rank - 1][operand]),
        other_(ops, operand == 0 ? s.b : s.a, walk.strides[walk.rank - 1][1 - operand]),
        writer_(ops, s.y, walk.strides[walk.rank - 1][2]) {
    for (const RealIn* x : {&s.a, &s.b}) demand_real(*x);
    demand_real(s.y);
    for (const View* v : {&s.a.view, &s.b.view}) reads(*v);
    writes(s.y.view);
  }

  size_t items() const override { return rows_.items(); }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return 3 * row_scratch(kRepeatedFloats); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer many(scratch, kRepeatedFloats, 0), in(scratch, kRepeatedFloats, 1),
        out(scratch, kRepeatedFloats, 2);
    const View* const views[] = {&s_.a.view, &s_.b.view, &s_.y.view};
    const uint8_t* held = nullptr;
    visit_rows(walk_, walk_.rank - 2, rows_, begin, end, [&](const auto& offsets, size_t pixels) {
      const auto at = [&](size_t v) { return views[v]->at<uint8_t>(memory) + offsets[v]; };
      const uint8_t* const row = at(operand_);
      if (row != held) repeat(row, many);
      held = row;
      combine(at(1 - operand_), many.floats(), pixels * length_, at(2), in, out);
    });
  }

 private:
  void repeat(const uint8_t* row, const RowBuffer& many) const {
    float* const floats = many.floats();
    repeated_.copy(row, length_, floats, many.bytes());
    const size_t all = std::min(kRepeatedFloats / length_, rows_.columns) * length_;
    ColumnReader::repeat(floats, length_, all);
  }

  void combine(const uint8_t* x, const float* many, size_t n, uint8_t* y, const RowBuffer& in,
               const RowBuffer& out) const {
    if (s_.kind == BinaryKind::mul && other_.has_dense_bytes() && writer_.has_bytes()) {
      return writer_.bytes(y, n, out, [&](uint8_t* to) {
        ops_.mul_codes(x, other_.zero(), other_.scale(), many, n, writer_.scale(), writer_.grid(), to);
      });
    }
    const float *const one = other_.row(x, n, in), *const a = operand_ == 0 ? many : one;
    float* const to = writer_.target(y, n, out);
    ops_.binary[static_cast<size_t>(s_.kind)](a, 1, operand_ == 0 ? one : many, 1, n, to);
    writer_.finish(to, 1.0f, y, n, out);
  }

  const FloatOps& ops_;
  BinarySpec s_;
  Walk<3> walk_;
  size_t operand_, length_;
  Rows rows_;
  RowReader repeated_, other_;
  RowWriter writer_;
};

}  // namespace

std::unique_ptr<Step> make_function(const FloatOps& ops, const TransposeOps& turn, const FunctionSpec& spec) {
  const NamedFunction* const named = find_function(ops, spec.function.c_str());
  demand(named != nullptr, "no function has this name");
  if (spec.y.view.type == Type::u8) return std::make_unique<Curve>(ops, turn, spec.x, spec.y, named->codes);
  const auto apply = [function = named->function](const float* x, size_t n, float* y) { function(x, y, n); };
  return std::make_unique<Map<decltype(apply)>>(ops, turn, spec.x, spec.y, apply);
}

std::unique_ptr<Step> make_clip(const FloatOps& ops, const TransposeOps& turn, const ClipSpec& s) {
  demand(!std::isnan(s.low) && !std::isnan(s.high), "a bound is not a number");
  const auto apply = [clip = ops.clip, low = s.low, high = s.high](const float* x, size_t n, float* y) {
    clip(x, n, low, high, y);
  };
  return std::make_unique<Map<decltype(apply)>>(ops, turn, s.x, s.y, apply);
}

std::unique_ptr<Step> make_fake_quantize(const FloatOps& ops, const TransposeOps& turn,
                                         const FakeQuantizeOps& fake_quantize, const FakeQuantizeSpec& s) {
  demand(std::isfinite(s.scale) && s.scale > 0, "a scale is positive and finite");
  demand(-kMostSteps <= s.low && s.low <= s.high && s.high <= kMostSteps, "a grid has ends in order");
  const auto apply = [run = fake_quantize.run, scale = s.scale, low = s.low, high = s.high](
                         const float* x, size_t n, float* y) { run(x, n, {&scale, &low, &high, true}, y); };
  return std::make_unique<Map<decltype(apply)>>(ops, turn, s.x, s.y, apply);
}

std::unique_ptr<Step> make_binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& spec) {
  demand(static_cast<size_t>(spec.kind) < kBinaryKinds, "no such function of two");
  const Walk<3> walk({spec.a.view, spec.b.view, spec.y.view});
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    if (Repeating::length(walk, operand) > 0) return std::make_unique<Repeating>(ops, spec, walk, operand);
  }
  return std::make_unique<Binary>(ops, turn, spec);
}

}  // namespace intact
