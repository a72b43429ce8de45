#include "steps/float_steps.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/chunks.h"

namespace intact {
namespace {

constexpr size_t kChunk = 4096;
constexpr float kMostSteps = 65535.0f;  // from zero, on a grid of 16 bits

// What both kinds share: a kernel's name, and scratch for a chunk of each view.
template <size_t kViews>
class FloatChunks : public Chunks<kViews> {
 public:
  FloatChunks(const FloatOps& ops, const std::array<View, kViews>& views)
      : Chunks<kViews>(views, kChunk), ops_(ops) {}

  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return kViews * row_scratch(kChunk); }

 private:
  const FloatOps& ops_;
};

// y = f(x), f of rows: (x, n, y).
template <class F>
class Map final : public FloatChunks<2> {
 public:
  Map(const FloatOps& ops, const RealIn& x, const RealOut& y, const F& function)
      : FloatChunks(ops, {x.view, y.view}),
        x_(x.view),
        y_(y.view),
        function_(function),
        reader_(ops, x, stride(0)),
        writer_(ops, y, stride(1)) {
    demand_real(x);
    demand_real(y);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer in(scratch, kChunk, 0), out(scratch, kChunk, 1);
    each(begin, end, [&](const auto& at, size_t n) {
      uint8_t* const y = y_.at<uint8_t>(memory) + at[1];
      const float* x = reader_.row(x_.at<uint8_t>(memory) + at[0], n, in);
      float* const to = writer_.target(y, n, out);
      function_(x, n, to);
      writer_.finish(to, 1.0f, y, n, out);
    });
  }

 private:
  View x_, y_;
  F function_;
  RowReader reader_;
  RowWriter writer_;
};

// Bytes of f(x), in one pass.
class Curve final : public FloatChunks<2> {
 public:
  Curve(const FloatOps& ops, const RealIn& x, const RealOut& y, CurveFunction curve)
      : FloatChunks(ops, {x.view, y.view}),
        x_(x.view),
        y_(y.view),
        curve_(curve),
        codes_{1.0f, 0.0f, y.scale, y.grid},
        reader_(ops, x, stride(0)),
        writer_(ops, y, stride(1)) {
    demand_real(x);
    demand_real(y);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer in(scratch, kChunk, 0), out(scratch, kChunk, 1);
    each(begin, end, [&](const auto& at, size_t n) {
      const float* x = reader_.row(x_.at<uint8_t>(memory) + at[0], n, in);
      writer_.bytes(y_.at<uint8_t>(memory) + at[1], n, out, [&](uint8_t* to) { curve_(x, n, codes_, to); });
    });
  }

 private:
  View x_, y_;
  CurveFunction curve_;
  CurveCodes codes_;
  RowReader reader_;
  RowWriter writer_;
};

class Binary final : public FloatChunks<3> {
 public:
  Binary(const FloatOps& ops, const BinarySpec& s)
      : FloatChunks(ops, {s.a.view, s.b.view, s.y.view}),
        a_(s.a.view),
        b_(s.b.view),
        y_(s.y.view),
        combine_(ops.binary[static_cast<size_t>(s.kind)]),
        a_reader_(ops, s.a, stride(0)),
        b_reader_(ops, s.b, stride(1)),
        writer_(ops, s.y, stride(2)) {
    demand_real(s.a);
    demand_real(s.b);
    demand_real(s.y);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer buffers[] = {{scratch, kChunk, 0}, {scratch, kChunk, 1}, {scratch, kChunk, 2}};
    each(begin, end, [&](const auto& at, size_t n) {
      uint8_t* const y = y_.at<uint8_t>(memory) + at[2];
      const float* a = row(a_reader_, a_.at<uint8_t>(memory) + at[0], n, buffers[0]);
      const float* b = row(b_reader_, b_.at<uint8_t>(memory) + at[1], n, buffers[1]);
      float* const to = writer_.target(y, n, buffers[2]);
      combine_(a, a_reader_.stride() != 0, b, b_reader_.stride() != 0, n, to);
      writer_.finish(to, 1.0f, y, n, buffers[2]);
    });
  }

 private:
  static const float* row(const RowReader& reader, const uint8_t* x, size_t n, const RowBuffer& buffer) {
    return reader.row(x, reader.stride() == 0 ? 1 : n, buffer);  // one element for all
  }

  View a_, b_, y_;
  void (*combine_)(const float*, size_t, const float*, size_t, size_t, float*);
  RowReader a_reader_, b_reader_;
  RowWriter writer_;
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
    return 2 * n <= kMost && outer[operand] == 0 && inner[operand] != 0 && even(other) && even(2) ? n : 0;
  }

  Repeating(const FloatOps& ops, const BinarySpec& s, const Walk<3>& walk, size_t operand)
      : ops_(ops),
        s_(s),
        walk_(walk),
        operand_(operand),
        length_(length(walk, operand)),
        rows_(walk.outer(walk.rank - 2), walk.size(walk.rank - 2), kMost / length_),
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
  size_t scratch() const override { return 3 * row_scratch(kMost); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer many(scratch, kMost, 0), in(scratch, kMost, 1), out(scratch, kMost, 2);
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
  static constexpr size_t kMost = 2048;  // floats: a few rows of them stay in the first cache

  void repeat(const uint8_t* row, const RowBuffer& many) const {
    float* const floats = many.floats();
    repeated_.copy(row, length_, floats, many.bytes());
    const size_t all = std::min(kMost / length_, rows_.columns) * length_;
    for (size_t n = length_; n < all; n *= 2) {
      std::memcpy(floats + n, floats, std::min(n, all - n) * sizeof *floats);
    }
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

std::unique_ptr<Step> make_function(const FloatOps& ops, const FunctionSpec& spec) {
  const NamedFunction* const named = find_function(ops, spec.function.c_str());
  demand(named != nullptr, "no function has this name");
  if (spec.y.view.type == Type::u8) return std::make_unique<Curve>(ops, spec.x, spec.y, named->codes);
  const auto apply = [function = named->function](const float* x, size_t n, float* y) { function(x, y, n); };
  return std::make_unique<Map<decltype(apply)>>(ops, spec.x, spec.y, apply);
}

std::unique_ptr<Step> make_clip(const FloatOps& ops, const ClipSpec& s) {
  demand(!std::isnan(s.low) && !std::isnan(s.high), "a bound is not a number");
  const auto apply = [clip = ops.clip, low = s.low, high = s.high](const float* x, size_t n, float* y) {
    clip(x, n, low, high, y);
  };
  return std::make_unique<Map<decltype(apply)>>(ops, s.x, s.y, apply);
}

std::unique_ptr<Step> make_fake_quantize(const FloatOps& ops, const FakeQuantizeOps& fake_quantize,
                                         const FakeQuantizeSpec& s) {
  demand(std::isfinite(s.scale) && s.scale > 0, "a scale is positive and finite");
  demand(-kMostSteps <= s.low && s.low <= s.high && s.high <= kMostSteps, "a grid has ends in order");
  const auto apply = [run = fake_quantize.run, scale = s.scale, low = s.low, high = s.high](
                         const float* x, size_t n, float* y) { run(x, n, {&scale, &low, &high, true}, y); };
  return std::make_unique<Map<decltype(apply)>>(ops, s.x, s.y, apply);
}

std::unique_ptr<Step> make_binary(const FloatOps& ops, const BinarySpec& spec) {
  demand(static_cast<size_t>(spec.kind) < kBinaryKinds, "no such function of two");
  const Walk<3> walk({spec.a.view, spec.b.view, spec.y.view});
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    if (Repeating::length(walk, operand) > 0) return std::make_unique<Repeating>(ops, spec, walk, operand);
  }
  return std::make_unique<Binary>(ops, spec);
}

}  // namespace intact
