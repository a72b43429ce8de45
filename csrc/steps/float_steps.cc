#include "steps/float_steps.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/chunks.h"

namespace intact {
namespace {

constexpr size_t kChunk = 4096;

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

std::unique_ptr<Step> make_binary(const FloatOps& ops, const BinarySpec& spec) {
  demand(static_cast<size_t>(spec.kind) < kBinaryKinds, "no such function of two");
  return std::make_unique<Binary>(ops, spec);
}

}  // namespace intact
