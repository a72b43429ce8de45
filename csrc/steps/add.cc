#include "steps/add.h"

#include <cmath>

#include "kernels/registry.h"
#include "steps/common/code_rows.h"

namespace intact {
namespace {

class Add final : public CodeRows<3> {
 public:
  Add(const PointwiseOps& ops, const AddSpec& s) : CodeRows({s.a, s.b, s.y}), ops_(ops), s_(s) {
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

}  // namespace

std::unique_ptr<Step> make_add(const PointwiseOps& ops, const AddSpec& spec) {
  return std::make_unique<Add>(ops, spec);
}

}  // namespace intact
