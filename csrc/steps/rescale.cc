#include "steps/rescale.h"

#include "kernels/registry.h"
#include "steps/common/code_rows.h"

namespace intact {
namespace {

class Rescale final : public CodeRows<2> {
 public:
  Rescale(const PointwiseOps& ops, const RescaleSpec& s) : CodeRows({s.x, s.y}), ops_(ops), s_(s) {
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

}  // namespace

std::unique_ptr<Step> make_rescale(const PointwiseOps& ops, const RescaleSpec& spec) {
  return std::make_unique<Rescale>(ops, spec);
}

}  // namespace intact
