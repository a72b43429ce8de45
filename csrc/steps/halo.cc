#include "steps/halo.h"

#include <cstring>

#include "steps/common/views.h"

namespace intact {
namespace {

class Halo final : public Step {
 public:
  explicit Halo(const HaloSpec& s) : s_(s) {
    const auto unit = static_cast<int64_t>(bytes_of(s.image.type));
    demand(s.image.rank == 4 && (s.image.sizes[3] < 2 || s.image.strides[3] == unit),
           "only an image (n, h, w, c) has a halo");
    demand(s.image.strides[2] == s.image.sizes[3] * unit, "pixels lie behind each other");
    elements_of(s.image);
    for (const int64_t h : s.image.halo) demand(0 <= h && h < kMostElements, "a halo is out of range");
    empty_ = s.image.sizes[0] == 0 || s.image.sizes[3] == 0;
    writes_with_halo(s.image);
  }

  std::string name() const override { return "halo"; }
  size_t items() const override { return empty_ ? 0 : 1; }

  void run(const Memory& memory, size_t, size_t, uint8_t*) const noexcept override {
    const auto& [top, left, bottom, right] = s_.image.halo;
    const auto& size = s_.image.sizes;
    const auto& stride = s_.image.strides;
    const int64_t pixel = stride[2];
    for (int64_t n = 0; n < size[0]; ++n) {
      uint8_t* rows = s_.image.at<uint8_t>(memory) + n * stride[0];
      for (int64_t h = -top; h < size[1] + bottom; ++h) {
        uint8_t* row = rows + h * stride[1];
        const bool whole = h < 0 || h >= size[1];
        fill(row - left * pixel, (whole ? left + size[2] + right : left) * pixel);
        if (!whole) fill(row + size[2] * pixel, right * pixel);
      }
    }
  }

 private:
  void fill(uint8_t* y, int64_t n) const { std::memset(y, s_.value, static_cast<size_t>(n)); }

  HaloSpec s_;
  bool empty_ = false;
};

}  // namespace

std::unique_ptr<Step> make_halo(const HaloSpec& spec) { return std::make_unique<Halo>(spec); }

}  // namespace intact
