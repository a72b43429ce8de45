#include "steps/function.h"

#include "steps/common/float_rows.h"

namespace intact {
namespace {

// Codes of f(x), in one pass.
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

}  // namespace

std::unique_ptr<Step> make_function(const FloatOps& ops, const TransposeOps& turn, const FunctionSpec& spec) {
  const NamedFunction* const named = find_function(ops, spec.function.c_str());
  demand(named != nullptr, "no function has this name");
  if (spec.y.view.type == Type::u8) return std::make_unique<Curve>(ops, turn, spec.x, spec.y, named->codes);
  const auto apply = [function = named->function](const float* x, size_t n, float* y) { function(x, y, n); };
  return std::make_unique<FloatMap<decltype(apply)>>(ops, turn, spec.x, spec.y, apply);
}

}  // namespace intact
