#include "steps/float_steps.h"

#include <algorithm>
#include <cmath>

#include "kernels/registry.h"
#include "steps/walk.h"

namespace intact {
namespace {

constexpr size_t kChunk = 4096;

// What both kinds share: chunks of the longest rows that all views pass through evenly.
template <size_t kViews>
class Chunks : public Step {
 public:
  Chunks(const FloatOps& ops, const std::array<View, kViews>& views)
      : ops_(ops), walk_(views), rows_(walk_.outer(walk_.rank - 1), walk_.size(walk_.rank - 1), kChunk) {
    for (size_t v = 0; v + 1 < kViews; ++v) reads(views[v]);
    writes(views.back());
  }

  size_t items() const override { return rows_.items(); }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return kViews * row_scratch(kChunk); }

 protected:
  int64_t stride(size_t view) const { return walk_.strides[walk_.rank - 1][view]; }

  // body(byte offset of each view, n).
  template <class Body>
  void each(size_t begin, size_t end, const Body& body) const {
    Cursor<kViews> cursor(walk_, walk_.rank - 1, begin * rows_.each / std::max<size_t>(1, rows_.chunks));
    bool started = false;
    rows_.visit(begin, end, [&](size_t, size_t from, size_t n) {
      if (started && from == 0) cursor.next();
      started = true;
      std::array<ptrdiff_t, kViews> at;
      for (size_t v = 0; v < kViews; ++v) {
        at[v] = cursor.offset(v) + static_cast<ptrdiff_t>(from) * static_cast<ptrdiff_t>(stride(v));
      }
      body(at, n);
    });
  }

 private:
  const FloatOps& ops_;
  Walk<kViews> walk_;
  Rows rows_;
};

// y = f(x), f of rows: (x, n, y).
template <class F>
class Map final : public Chunks<2> {
 public:
  Map(const FloatOps& ops, const RealIn& x, const RealOut& y, const F& function)
      : Chunks(ops, {x.view, y.view}),
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

class Binary final : public Chunks<3> {
 public:
  Binary(const FloatOps& ops, const BinarySpec& s)
      : Chunks(ops, {s.a.view, s.b.view, s.y.view}),
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
