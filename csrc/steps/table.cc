#include "steps/table.h"

#include "kernels/registry.h"
#include "steps/common/code_rows.h"

namespace intact {
namespace {

class Table final : public CodeRows<2> {
 public:
  Table(const PointwiseOps& ops, const TableSpec& s) : CodeRows({s.x, s.y}), ops_(ops), table_(s.table) {
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

std::unique_ptr<Step> make_table(const PointwiseOps& ops, const TableSpec& spec) {
  return std::make_unique<Table>(ops, spec);
}

}  // namespace intact
