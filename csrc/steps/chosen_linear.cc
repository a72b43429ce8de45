#include "steps/chosen_linear.h"

#include "steps/common/lines.h"
#include "steps/conv/conv_step.h"

namespace intact {
namespace conv_panels {
namespace {

// Throws std::invalid_argument where rows, indices and weights do not fit each other.
const ConvSpec& checked(const ChosenLinearSpec& s) {
  const ConvSpec& c = s.conv;
  const PackedHeader& h = c.layer->packed.header;
  const View &x = c.x, &y = c.y, &index = s.index;
  demand(h.kernel_h == 1 && h.kernel_w == 1 && h.groups >= 1, "each group is a matrix");
  demand(h.groups < (1 << 24), "there are too many matrices");
  demand(!c.layer->is_wide && !c.low && !c.residual, "chosen products have neither low bytes nor a residual");
  demand(x.high <= h.high, "weights are packed for smaller bytes");
  demand_image(x, "rows are an image of bytes with dense pixels");
  demand(y.rank == 4 && y.strides[3] == static_cast<int64_t>(bytes_of(y.type)),
         "rows are written to an image of dense pixels");
  for (const View* v : {&x, &y}) {
    elements_of(*v);
    demand(v->sizes[0] == 1 && v->sizes[1] == 1, "rows are an image of one line");
  }
  demand(x.sizes[3] == h.in && y.sizes[3] == h.out / h.groups, "channels differ from the weights'");
  demand(x.strides[2] >= 0, "conv reads rows in order");
  elements_of(index);
  demand(is_index(index) && index.rank == 1 && index.sizes[0] == y.sizes[2], "one index for each row of y");
  demand(x.sizes[2] > 0 ? y.sizes[2] % x.sizes[2] == 0 : y.sizes[2] == 0, "as many rows of y for each of x");
  check_ends(c.layer->epilogue, y, c.residual);
  return c;
}

// Items are those of ConvStep: some panels and some rows. Each panel multiplies the rows that chose its
// group.
class ChosenLinear final : public ConvStep {
 public:
  explicit ChosenLinear(const ChosenLinearSpec& spec)
      : ConvStep(checked(spec), true),
        index_(spec.index),
        each_(s_.x.sizes[2] > 0 ? s_.y.sizes[2] / s_.x.sizes[2] : 1) {
    reads(index_);
  }

  size_t scratch() const override { return ConvStep::scratch() + ends_bytes() + matrix_bytes(); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    for (size_t item = begin; item < end; ++item) {
      const auto block = static_cast<int64_t>(item % blocks());
      run_block(memory, item / blocks(), {pixel_of(block), pixel_of(block + 1)}, scratch);
    }
  }

 private:
  size_t ends_bytes() const { return align64((static_cast<size_t>(shares_) + 1) * sizeof(int32_t)); }
  size_t matrix_bytes() const { return align64(static_cast<size_t>(cut_.most_pixels) * sizeof(int32_t)); }

  // The index of the matrix that a row chooses. An index out of range fails the run.
  int32_t matrix_of(const Memory& memory, int64_t row) const {
    int64_t at = index_at(index_, index_.at<uint8_t>(memory) + row * index_.strides[0]);
    at += at < 0 ? shares_ : 0;
    if (0 <= at && at < shares_) return static_cast<int32_t>(at);
    memory.fail();
    return 0;
  }

  // Fills the addresses of rows, sorted by matrix. Rows of matrix g begin at ends[g].
  void sort_rows(const Memory& memory, Range range, const Rows& rows, int32_t* ends, int32_t* own) const {
    std::fill(ends, ends + shares_ + 1, 0);
    for (int64_t row = range.first; row < range.end; ++row) {
      const int32_t at = own[row - range.first] = matrix_of(memory, row);
      ++ends[at + 1];
    }
    for (int64_t g = 0; g < shares_; ++g) ends[g + 1] += ends[g];
    // Rows are placed from behind, which turns each end into a beginning.
    for (int64_t row = range.end; row-- > range.first;) {
      const int32_t to = --ends[own[row - range.first] + 1];
      rows.x[to] = s_.x.at<uint8_t>(memory) + row / each_ * s_.x.strides[2];
      rows.y[to] = s_.y.at<uint8_t>(memory) + row * s_.y.strides[2];
    }
    std::copy(ends + 1, ends + shares_ + 1, ends);
    ends[shares_] = static_cast<int32_t>(range.end - range.first);
  }

  void run_block(const Memory& memory, size_t chunk, Range range, uint8_t* scratch) const {
    const Scratch own = scratch_at(scratch);
    auto* const ends = reinterpret_cast<int32_t*>(scratch + ConvStep::scratch());
    sort_rows(memory, range, own.rows, ends, ends + ends_bytes() / sizeof(int32_t));
    for (size_t p = cut_.chunks[chunk]; p < cut_.chunks[chunk + 1];) {
      const int32_t group = panels_[p].group;
      size_t last = p;
      while (last < cut_.chunks[chunk + 1] && panels_[last].group == group) ++last;
      const int64_t end = ends[group + 1], most = copies_.any() ? copies_.rows() : end;
      for (int64_t first = ends[group]; first < end; first += most) {
        const auto count = static_cast<int>(std::min(most, end - first));
        run_panels(p, last, own.rows.from(first), count, 0, own, [](size_t) { return Ahead{nullptr, 0}; });
      }
      p = last;
    }
  }

  View index_;
  int64_t each_;  // rows of y per row of x
};

}  // namespace
}  // namespace conv_panels

std::unique_ptr<Step> make_chosen_linear(const ChosenLinearSpec& spec) {
  demand(spec.conv.layer->kernel->tiles == nullptr, "rows choose weights that are packed for vectors");
  return std::make_unique<conv_panels::ChosenLinear>(spec);
}

}  // namespace intact
