#include "steps/pointwise.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/walk.h"

namespace intact {
namespace {

using namespace tuning::images;

// Rows of an input as the kernels want them: neighbours. What is not dense is gathered in scratch.
template <size_t kViews>
struct Gather {
  bool dense;
  int64_t stride;

  Gather(const Walk<kViews>& walk, size_t view)
      : dense(walk.dense(view)), stride(walk.strides[walk.rank - 1][view]) {}

  const uint8_t* row(const uint8_t* x, size_t from, size_t n, uint8_t* scratch) const {
    x += static_cast<int64_t>(from) * stride;
    if (dense) return x;
    if (stride == 0) return static_cast<const uint8_t*>(std::memset(scratch, *x, n));
    for (size_t i = 0; i < n; ++i) scratch[i] = x[static_cast<int64_t>(i) * stride];
    return scratch;
  }
};

// y = f(views before it), in chunks of dense bytes.
template <size_t kViews>
class Pointwise : public Step {
 public:
  explicit Pointwise(const std::array<View, kViews>& views)
      : views_(views), walk_(views), rows_(walk_.outer(walk_.rank - 1), walk_.size(walk_.rank - 1), kCodes) {
    for (const View& v : views) demand(v.type == Type::u8, "codes are bytes");
    for (size_t v = 0; v + 1 < kViews; ++v) reads(views[v]);
    writes(views.back());
  }

  size_t items() const override { return rows_.items(); }
  size_t scratch() const override { return kViews * kCodes; }

 protected:
  // body(dense inputs, n, dense y).
  template <class Body>
  void each(const Memory& memory, size_t begin, size_t end, uint8_t* scratch, const Body& body) const {
    std::array<const uint8_t*, kViews - 1> inputs;
    Cursor<kViews> cursor(walk_, walk_.rank - 1, begin * rows_.each / std::max<size_t>(1, rows_.chunks));
    const Gather<kViews> target(walk_, kViews - 1);
    uint8_t* const spare = scratch + (kViews - 1) * kCodes;
    bool started = false;
    rows_.visit(begin, end, [&](size_t, size_t from, size_t n) {
      if (started && from == 0) cursor.next();
      started = true;
      for (size_t v = 0; v + 1 < kViews; ++v) {
        const uint8_t* x = views_[v].template at<uint8_t>(memory) + cursor.offset(v);
        inputs[v] = Gather<kViews>(walk_, v).row(x, from, n, scratch + v * kCodes);
      }
      uint8_t* y = views_.back().template at<uint8_t>(memory) + cursor.offset(kViews - 1) +
                   static_cast<int64_t>(from) * target.stride;
      body(inputs, n, target.dense ? y : spare);
      for (size_t i = 0; !target.dense && i < n; ++i) y[static_cast<int64_t>(i) * target.stride] = spare[i];
    });
  }

  std::array<View, kViews> views_;

 private:
  Walk<kViews> walk_;
  Rows rows_;
};

void demand_sound(Operand from) {
  demand(-kMostZero < from.zero && from.zero < kMostZero, "a zero point is out of range");
}

class Add final : public Pointwise<3> {
 public:
  Add(const PointwiseOps& ops, const AddSpec& s) : Pointwise({s.a, s.b, s.y}), ops_(ops), s_(s) {
    demand_sound(s.from_a);
    demand_sound(s.from_b);
    demand(is_sound(s.grid), "the output's grid is not within bytes");
    demand(s.scale > 0 && std::isfinite(s.scale), "the output's scale is not positive and finite");
    divisor_ = divisor_of(s.scale, s.grid.low - s.grid.zero, s.grid.high - s.grid.zero);
  }

  std::string name() const override { return name_of(&ops_); }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& x, size_t n, uint8_t* y) {
      ops_.add(x[0], s_.from_a, x[1], s_.from_b, n, divisor_, s_.grid, y);
    });
  }

 private:
  const PointwiseOps& ops_;
  AddSpec s_;
  Divisor divisor_;
};

class Rescale final : public Pointwise<2> {
 public:
  Rescale(const PointwiseOps& ops, const RescaleSpec& s) : Pointwise({s.x, s.y}), ops_(ops), s_(s) {
    demand_sound(s.from);
    demand(is_sound(s.grid), "the output's grid is not within bytes");
  }

  std::string name() const override { return name_of(&ops_); }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch,
         [&](const auto& x, size_t n, uint8_t* y) { ops_.rescale(x[0], s_.from, n, s_.grid, y); });
  }

 private:
  const PointwiseOps& ops_;
  RescaleSpec s_;
};

class Lookup final : public Pointwise<2> {
 public:
  Lookup(const PointwiseOps& ops, const LookupSpec& s) : Pointwise({s.x, s.y}), ops_(ops), table_(s.table) {
    demand_vector(s.table, Type::u8, 256, "a table has 256 bytes");
    reads(s.table);
  }

  std::string name() const override { return name_of(&ops_); }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const uint8_t* table = table_.at<uint8_t>(memory);
    each(memory, begin, end, scratch,
         [&](const auto& x, size_t n, uint8_t* y) { ops_.lookup(x[0], table, n, y); });
  }

 private:
  const PointwiseOps& ops_;
  View table_;
};

}  // namespace

std::unique_ptr<Step> make_add(const PointwiseOps& ops, const AddSpec& spec) {
  return std::make_unique<Add>(ops, spec);
}

std::unique_ptr<Step> make_rescale(const PointwiseOps& ops, const RescaleSpec& spec) {
  return std::make_unique<Rescale>(ops, spec);
}

std::unique_ptr<Step> make_lookup(const PointwiseOps& ops, const LookupSpec& spec) {
  return std::make_unique<Lookup>(ops, spec);
}

}  // namespace intact
