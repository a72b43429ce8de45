#include "steps/float_attention.h"

#include <algorithm>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/float_panels.h"
#include "steps/common/row_reader.h"
#include "steps/common/softmax_rows.h"
#include "steps/common/walk.h"

namespace intact {
namespace {

using tuning::products::kQueries;

constexpr size_t kScoreFloats = 4096;  // of scores between two products: they stay in the first cache

size_t size_of(const View& v, int axis) { return static_cast<size_t>(v.sizes[v.rank - 2 + axis]); }
// Strides in floats, of rows and of columns.
ptrdiff_t step_of(const View& v, int axis) {
  return static_cast<ptrdiff_t>(v.strides[v.rank - 2 + axis] / 4);
}

View leading(View v) {
  v.rank -= 2;
  return v;
}

const FloatAttentionSpec& checked(const FloatAttentionSpec& s) {
  for (const View* v : {&s.q, &s.keys, &s.values, &s.y}) {
    elements_of(*v);
    demand(2 <= v->rank && v->rank <= kMaxRank && v->rank == s.y.rank, "matrices with as many axes");
    demand(v->type == Type::f32 && v->offset % 4 == 0, "an attention of floats is of float32");
    for (int i = 0; i < v->rank; ++i) demand(v->strides[i] % 4 == 0, "float32 lies at multiples of 4");
    demand(size_of(*v, 0) < (1 << 24) && size_of(*v, 1) < (1 << 24), "a product is too deep");
  }
  demand(size_of(s.q, 0) == size_of(s.y, 0) && size_of(s.q, 1) == size_of(s.keys, 0) &&
             size_of(s.keys, 1) == size_of(s.values, 0) && size_of(s.values, 1) == size_of(s.y, 1),
         "matrices do not fit each other");
  if (s.mask) {
    demand_real(*s.mask);
    demand(s.mask->view.rank == s.y.rank && size_of(s.mask->view, 0) == size_of(s.q, 0) &&
               size_of(s.mask->view, 1) == size_of(s.keys, 1),
           "a mask has the sizes of the scores");
  }
  return s;
}

// One item is some rows of a matrix, for which keys and values are packed.
class FloatAttention final : public Step {
 public:
  FloatAttention(const FloatGemmOps& gemm, const FloatOps& floats, const TransposeOps& transpose,
                 const FloatAttentionSpec& s)
      : gemm_(gemm),
        floats_(floats),
        transpose_(transpose),
        s_(checked(s)),
        rows_(size_of(s.q, 0)),
        depth_(size_of(s.q, 1)),
        tokens_(size_of(s.keys, 1)),
        width_(size_of(s.y, 1)),
        outer_({leading(s.q), leading(s.keys), leading(s.values), leading(s.mask ? s.mask->view : s.q),
                leading(s.y)}),
        pitch_(align64(tokens_) + 16),  // rows at multiples of a page would share few sets of a cache
        block_(std::clamp(kScoreFloats / pitch_ / gemm.rows, size_t{1}, size_t{4}) * gemm.rows),
        items_((rows_ + kQueries - 1) / kQueries),
        is_dense_(width_ < 2 || step_of(s.y, 1) == 1),
        mask_(floats, s.mask.value_or(RealIn{}), s.mask ? s.mask->view.strides[s.mask->view.rank - 1] : 4) {
    for (const View* v : {&s.q, &s.keys, &s.values}) reads(*v);
    if (s.mask) reads(s.mask->view);
    writes(s.y);
  }

  std::string name() const override { return name_of(&gemm_) + std::string("+") + name_of(&floats_); }
  size_t items() const override { return width_ == 0 ? 0 : outer_.outer(outer_.rank) * items_; }
  size_t scratch() const override { return room_at(nullptr).second; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const Room room = room_at(scratch).first;
    Right keys{}, values{};
    for (size_t item = begin; item < end; ++item) {
      const Cursor<5> at(outer_, outer_.rank, item / items_);
      if (item == begin || item % items_ == 0) {
        keys = right_side(s_.keys, memory, at.offset(1), room.keys);
        values = right_side(s_.values, memory, at.offset(2), room.values);
      }
      const size_t first = item % items_ * kQueries, last = std::min(first + kQueries, rows_);
      for (size_t row = first; row < last; row += block_)
        attend(memory, at, room, {keys, values}, row, std::min(block_, last - row));
    }
  }

 private:
  // The right side of a product: floats of a panel from one k to the next, and from panel to panel.
  struct Right {
    const float* b;
    size_t down, pitch;
  };
  struct Sides {
    const Right &keys, &values;
  };
  struct Room {
    const float** q;
    float **scores, **y;
    float *keys, *values;  // packed
    float *floats, *apart;  // scores; rows of y that are not dense
    uint8_t* mask;
  };

  // The parts of a scratch, and the bytes of all.
  std::pair<Room, size_t> room_at(uint8_t* scratch) const {
    size_t bytes = 0;
    const auto take = [&](size_t size) {
      uint8_t* const at = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += align64(size);
      return at;
    };
    const auto floats = [&](size_t count) { return reinterpret_cast<float*>(take(count * sizeof(float))); };
    const auto columns = [&](size_t n) { return (n + gemm_.panel - 1) / gemm_.panel * gemm_.panel; };
    Room room;
    room.q = reinterpret_cast<const float**>(take(block_ * sizeof(float*)));
    room.scores = reinterpret_cast<float**>(take(block_ * sizeof(float*)));
    room.y = reinterpret_cast<float**>(take(block_ * sizeof(float*)));
    room.keys = floats(columns(tokens_) * depth_);
    room.values = floats(columns(width_) * tokens_);
    room.floats = floats(block_ * pitch_);
    room.apart = floats(is_dense_ ? 0 : block_ * width_);
    room.mask = take(s_.mask ? row_scratch(tokens_) : 0);
    return {room, bytes};
  }

  // A dense matrix whose rows fill whole registers is read where it lies, others are packed.
  Right right_side(const View& v, const Memory& memory, ptrdiff_t offset, float* packed) const {
    const float* const b = v.at<float>(memory) + offset / 4;
    const size_t depth = size_of(v, 0), columns = size_of(v, 1);
    if (columns % 16 == 0 && step_of(v, 1) == 1 && step_of(v, 0) == static_cast<ptrdiff_t>(columns))
      return {b, columns, gemm_.panel};
    pack_matrix(gemm_, transpose_, b, step_of(v, 0), step_of(v, 1), depth, columns, packed);
    return {packed, gemm_.panel, depth * gemm_.panel};
  }

  void attend(const Memory& memory, const Cursor<5>& at, const Room& room, const Sides& sides, size_t first,
              size_t rows) const {
    const auto row_at = [&](const View& v, size_t operand, size_t r) {
      return v.at<float>(memory) + at.offset(operand) / 4 + static_cast<ptrdiff_t>(first + r) * step_of(v, 0);
    };
    for (size_t r = 0; r < rows; ++r) {
      room.q[r] = row_at(s_.q, 0, r);
      room.scores[r] = room.floats + r * pitch_;
      room.y[r] = is_dense_ ? row_at(s_.y, 4, r) : room.apart + r * width_;
    }
    multiply(room.q, step_of(s_.q, 1), depth_, sides.keys, room.scores, rows, tokens_);
    softmax_rows(floats_, rows, s_.gain, [&](size_t r) {
      return ScoreRow{room.scores[r], tokens_, mask_of(memory, at, room, first + r)};
    });
    multiply(room.scores, 1, tokens_, sides.values, room.y, rows, width_);
    for (size_t r = 0; r < rows && !is_dense_; ++r) {
      float* y = row_at(s_.y, 4, r);
      for (size_t j = 0; j < width_; ++j, y += step_of(s_.y, 1)) *y = room.y[r][j];
    }
  }

  void multiply(const float* const* a, ptrdiff_t step, size_t length, const Right& right, float* const* y,
                size_t rows, size_t columns) const {
    const ptrdiff_t offset = 0;
    gemm_.multiply(
        {a, &offset, 1, length, step, right.b, right.pitch, nullptr, false, y, rows, columns, right.down});
  }

  // The floats that a row of scores is added to, or nullptr.
  const float* mask_of(const Memory& memory, const Cursor<5>& at, const Room& room, size_t row) const {
    if (!s_.mask) return nullptr;
    const View& v = s_.mask->view;
    const auto down = static_cast<ptrdiff_t>(v.strides[v.rank - 2]) * static_cast<ptrdiff_t>(row);
    return mask_.row(v.at<uint8_t>(memory) + at.offset(3) + down, tokens_, RowBuffer(room.mask, tokens_, 0));
  }

  const FloatGemmOps& gemm_;
  const FloatOps& floats_;
  const TransposeOps& transpose_;
  const FloatAttentionSpec s_;
  size_t rows_, depth_, tokens_, width_;
  Walk<5> outer_;
  size_t pitch_, block_, items_;
  bool is_dense_;
  RowReader mask_;
};

}  // namespace

std::unique_ptr<Step> make_float_attention(const FloatGemmOps& gemm, const FloatOps& floats,
                                           const TransposeOps& transpose, const FloatAttentionSpec& spec) {
  return std::make_unique<FloatAttention>(gemm, floats, transpose, spec);
}

}  // namespace intact
