#include "steps/fill.h"

#include <cstring>

#include "base/tuning.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using namespace tuning::moves;

class Fill final : public Step {
 public:
  explicit Fill(const FillSpec& s) : s_(s), walk_({s.y}), unit_(bytes_of(s.y.type)) {
    const int last = walk_.rank - 1;
    rows_ = Rows(walk_.outer(last), walk_.size(last), kTile);
    writes(s.y);
  }

  std::string name() const override { return "fill"; }
  size_t items() const override { return rows_.items(); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const int last = walk_.rank - 1;
    const int64_t step = walk_.strides[last][0];
    rows_.visit(begin, end, [&](size_t row, size_t from, size_t n) {
      uint8_t* y = s_.y.at<uint8_t>(memory) + Cursor<1>(walk_, last, row).offset(0);
      y += static_cast<int64_t>(from) * step;
      if (walk_.dense(0)) {
        std::memset(y, s_.value, n * unit_);
        return;
      }
      for (size_t i = 0; i < n; ++i, y += step) std::memset(y, s_.value, unit_);
    });
  }

 private:
  FillSpec s_;
  Walk<1> walk_;
  size_t unit_;
  Rows rows_;
};

}  // namespace

std::unique_ptr<Step> make_fill(const FillSpec& spec) { return std::make_unique<Fill>(spec); }

}  // namespace intact
