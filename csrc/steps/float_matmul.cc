#include "steps/float_matmul.h"

#include "kernels/registry.h"
#include "steps/common/float_panels.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

View without_last(View v, int axes) {
  v.rank -= axes;
  return v;
}

size_t size_of(const View& v, int from_end) { return static_cast<size_t>(v.sizes[v.rank - from_end]); }

// A stride in floats, of an axis counted from the end.
ptrdiff_t step_of(const View& v, int from_end) {
  return static_cast<ptrdiff_t>(v.strides[v.rank - from_end] / 4);
}

const FloatMatMulSpec& checked(const FloatMatMulSpec& s) {
  const int rank = s.y.rank, least = s.b ? 2 : 1;
  demand(least <= rank && rank <= kMaxRank && s.a.rank == rank && (!s.b || s.b->rank == rank),
         "a product needs matrices, with the same number of axes");
  for (const View* v : {&s.a, &s.y, s.b ? &*s.b : &s.y}) {
    elements_of(*v);
    demand(v->type == Type::f32 && v->offset % 4 == 0, "a product of floats is of float32");
    for (int i = 0; i < rank; ++i) demand(v->strides[i] % 4 == 0, "float32 lies at multiples of 4");
  }
  for (int i = 0; i < rank - least; ++i) {
    const bool same = s.a.sizes[i] == s.y.sizes[i] && (!s.b || s.b->sizes[i] == s.y.sizes[i]);
    demand(same, "views of one step differ in their sizes");
  }
  demand(size_of(s.a, 1) < (1 << 24), "a product is too deep");
  if (s.b) {
    const bool fit = size_of(s.a, 2) == size_of(s.y, 2) && size_of(*s.b, 1) == size_of(s.y, 1) &&
                     size_of(s.a, 1) == size_of(*s.b, 2);
    demand(fit, "matrices do not fit each other");
  }
  if (s.start) demand_start(*s.start, size_of(s.y, 1));
  return s;
}

// The products of a batch. With one packed right side, all rows of the batch are one matrix.
class FloatMatMul final : public Step {
 public:
  FloatMatMul(const FloatGemmOps& ops, const TransposeOps& transpose, const FloatMatMulSpec& spec)
      : ops_(ops),
        transpose_(transpose),
        s_(checked(spec)),
        batch_(s_.b ? Walk<3>({without_last(s_.a, 2), without_last(*s_.b, 2), without_last(s_.y, 2)})
                    : Walk<3>({View{}, View{}, View{}})),
        rows_({rows_of(s_.a), rows_of(s_.y)}),
        cut_(ops, rows_.elements, size_of(s_.y, 1), size_of(s_.a, 1), batch_.elements),
        dense_(cut_.columns < 2 || step_of(s_.y, 1) == 1) {
    const size_t packed = cut_.panels(ops.panel) * ops.panel * cut_.k;
    demand(s_.b || s_.packed.size == packed, "packed weights of another size, or for another kernel");
    reads(s_.a);
    if (s_.b) reads(*s_.b);
    if (s_.start) reads(*s_.start);
    writes(s_.y);
  }

  size_t items() const override { return batch_.outer(batch_.rank) * cut_.items(); }
  std::string name() const override { return name_of(&ops_); }
  // Scratch: addresses of rows of a, y and the result; the packed right side; rows of y that are not dense.
  size_t scratch() const override {
    return align64(3 * cut_.block * sizeof(void*)) + (s_.b ? right_bytes() : 0) +
           (dense_ ? 0 : cut_.block * cut_.chunk * sizeof(float));
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const Work work = cut(scratch);
    for (size_t item = begin; item < end; ++item) {
      const Cursor<3> at(batch_, batch_.rank, item / cut_.items());
      const size_t column = item / cut_.blocks % cut_.chunks * cut_.chunk;
      const size_t columns = std::min(cut_.chunk, cut_.columns - column);
      if (s_.b && (item == begin || item % cut_.blocks == 0)) pack(memory, at, column, columns, work.right);
      const size_t first = item % cut_.blocks * cut_.block, rows = std::min(cut_.block, cut_.rows - first);
      place(s_.a.at<float>(memory) + at.offset(0) / 4,
            s_.y.at<float>(memory) + at.offset(2) / 4 + static_cast<ptrdiff_t>(column) * step_of(s_.y, 1),
            first, rows, work);
      const ptrdiff_t offset = 0;
      const float* const b = s_.b ? work.right : s_.packed.data + column * cut_.k;
      const float* const start = s_.start ? s_.start->at<float>(memory) + column : nullptr;
      multiply_by_parts(ops_, {work.a, &offset, 1, cut_.k, step_of(s_.a, 1), b, cut_.k * ops_.panel, start,
                               false, work.made, rows, columns});
      if (!dense_) scatter(work, rows, columns);
    }
  }

 private:
  struct Work {
    const float** a;
    float **y, **made;
    float *right, *floats;
  };

  Work cut(uint8_t* scratch) const {
    auto* const a = reinterpret_cast<const float**>(scratch);
    auto* const y = reinterpret_cast<float**>(scratch) + cut_.block;
    auto* const right = reinterpret_cast<float*>(scratch + align64(3 * cut_.block * sizeof(void*)));
    return {a, y, y + cut_.block, right, right + (s_.b ? right_bytes() / sizeof(float) : 0)};
  }

  // Fills the addresses of rows [first, first + rows) of matrices that begin at a and y.
  void place(const float* a, float* y, size_t first, size_t rows, const Work& work) const {
    if (rows_.rank == 1) {
      const ptrdiff_t down_a = rows_.strides[0][0] / 4, down_y = rows_.strides[0][1] / 4;
      a += static_cast<ptrdiff_t>(first) * down_a;
      y += static_cast<ptrdiff_t>(first) * down_y;
      for (size_t r = 0; r < rows; ++r, a += down_a, y += down_y) {
        work.a[r] = a;
        work.y[r] = y;
      }
    } else {
      Cursor<2> row(rows_, rows_.rank, first);
      for (size_t r = 0; r < rows; ++r, row.next()) {
        work.a[r] = a + row.offset(0) / 4;
        work.y[r] = y + row.offset(1) / 4;
      }
    }
    for (size_t r = 0; r < rows; ++r) work.made[r] = dense_ ? work.y[r] : work.floats + r * cut_.chunk;
  }

  void scatter(const Work& work, size_t rows, size_t columns) const {
    for (size_t r = 0; r < rows; ++r) {
      float* y = work.y[r];
      for (size_t c = 0; c < columns; ++c, y += step_of(s_.y, 1)) *y = work.made[r][c];
    }
  }

  // The rows of one matrix of the batch; with a packed right side, the rows of all.
  View rows_of(const View& v) const {
    if (!s_.b) return without_last(v, 1);
    View rows = v;
    rows.rank = 1;
    rows.sizes[0] = v.sizes[v.rank - 2];
    rows.strides[0] = v.strides[v.rank - 2];
    return rows;
  }

  size_t right_bytes() const { return align64(cut_.chunk * cut_.k * sizeof(float)); }

  void pack(const Memory& memory, const Cursor<3>& at, size_t column, size_t columns, float* right) const {
    const ptrdiff_t across = step_of(*s_.b, 1), down = step_of(*s_.b, 2);
    const float* b = s_.b->at<float>(memory) + at.offset(1) / 4 + static_cast<ptrdiff_t>(column) * across;
    pack_matrix(ops_, transpose_, b, down, across, cut_.k, columns, right);
  }

  const FloatGemmOps& ops_;
  const TransposeOps& transpose_;
  FloatMatMulSpec s_;
  Walk<3> batch_;
  Walk<2> rows_;
  FloatCut cut_;
  bool dense_;
};

}  // namespace

std::unique_ptr<Step> make_float_matmul(const FloatGemmOps& ops, const TransposeOps& transpose,
                                        const FloatMatMulSpec& spec) {
  return std::make_unique<FloatMatMul>(ops, transpose, spec);
}

}  // namespace intact
