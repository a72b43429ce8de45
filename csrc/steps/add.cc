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
  }

  std::string name() const override { return name_of(&ops_); }
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& x, size_t n, uint8_t* y) {
      ops_.add(x[0], s_.from_a, x[1], s_.from_b, n, s_.divisor, s_.grid, y);
    });
  }

 private:
  const PointwiseOps& ops_;
  AddSpec s_;
};

}  // namespace

Divisor divisor_of_sum(float scale, const ByteGrid& grid) {
  demand(is_sound(grid), "the output's grid is not within bytes");
  demand(scale > 0 && std::isfinite(scale), "the output's scale is not positive and finite");
  return divisor_of(scale, grid.low - grid.zero, grid.high - grid.zero);
}

std::unique_ptr<Step> make_add(const PointwiseOps& ops, const AddSpec& spec) {
  return std::make_unique<Add>(ops, spec);
}

}  // namespace intact
