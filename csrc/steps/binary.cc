#include "steps/binary.h"

#include "steps/common/float_rows.h"

namespace intact {
namespace {

using namespace tuning::float_steps;

class Binary final : public FloatRows<2> {
 public:
  Binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& s)
      : FloatRows(ops, turn, {s.a, s.b}, s.y), combine_(ops.binary[static_cast<size_t>(s.kind)]) {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(memory, begin, end, scratch, [&](const auto& rows, size_t n, uint8_t* y, const RowBuffer& out) {
      float* const to = writer().target(y, n, out);
      combine_(rows[0], moves(0), rows[1], moves(1), n, to);
      writer().finish(to, 1.0f, y, n, out);
    });
  }

 private:
  void (*combine_)(const float*, size_t, const float*, size_t, size_t, float*);
};

// Binary where one operand has a short row that many neighbouring rows of the other share, such as one
// number per channel of an image. The row is repeated in scratch, so that the kernel works on long rows.
class BinaryOfRepeats final : public Step {
 public:
  // The length of the row that an operand repeats; 0 if it repeats none, or one that is long enough.
  static size_t length(const Walk<3>& walk, size_t operand) {
    if (walk.elements == 0 || walk.rank < 2) return 0;
    const auto &inner = walk.strides[walk.rank - 1], &outer = walk.strides[walk.rank - 2];
    const size_t n = walk.size(walk.rank - 1), other = 1 - operand;
    const auto even = [&](size_t v) {
      return outer[v] == inner[v] * static_cast<int64_t>(n) && inner[v] != 0;
    };
    return 2 * n <= kRepeatedFloats && outer[operand] == 0 && inner[operand] != 0 && even(other) && even(2)
               ? n
               : 0;
  }

  BinaryOfRepeats(const FloatOps& ops, const BinarySpec& s, const Walk<3>& walk, size_t operand)
      : ops_(ops),
        s_(s),
        walk_(walk),
        operand_(operand),
        length_(length(walk, operand)),
        rows_(walk.outer(walk.rank - 2), walk.size(walk.rank - 2), kRepeatedFloats / length_),
        repeated_(ops, operand == 0 ? s.a : s.b, walk.strides[walk.rank - 1][operand]),
        other_(ops, operand == 0 ? s.b : s.a, walk.strides[walk.rank - 1][1 - operand]),
        writer_(ops, s.y, walk.strides[walk.rank - 1][2]) {
    for (const RealIn* x : {&s.a, &s.b}) demand_real(*x);
    demand_real(s.y);
    for (const View* v : {&s.a.view, &s.b.view}) reads(*v);
    writes(s.y.view);
  }

  size_t items() const override { return rows_.items(); }
  std::string name() const override { return name_of(&ops_); }
  size_t scratch() const override { return 3 * row_scratch(kRepeatedFloats); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const RowBuffer many(scratch, kRepeatedFloats, 0), in(scratch, kRepeatedFloats, 1),
        out(scratch, kRepeatedFloats, 2);
    const View* const views[] = {&s_.a.view, &s_.b.view, &s_.y.view};
    const uint8_t* repeated_row = nullptr;
    visit_rows(walk_, walk_.rank - 2, rows_, begin, end, [&](const auto& offsets, size_t pixels) {
      const auto at = [&](size_t v) { return views[v]->at<uint8_t>(memory) + offsets[v]; };
      const uint8_t* const row = at(operand_);
      if (row != repeated_row) repeat(row, many);
      repeated_row = row;
      combine(at(1 - operand_), many.floats(), pixels * length_, at(2), in, out);
    });
  }

 private:
  void repeat(const uint8_t* row, const RowBuffer& many) const {
    float* const floats = many.floats();
    repeated_.copy(row, length_, floats, many.bytes());
    const size_t all = std::min(kRepeatedFloats / length_, rows_.columns) * length_;
    ColumnReader::repeat(floats, length_, all);
  }

  void combine(const uint8_t* x, const float* many, size_t n, uint8_t* y, const RowBuffer& in,
               const RowBuffer& out) const {
    if (s_.kind == BinaryKind::mul && other_.has_dense_bytes() && writer_.has_bytes()) {
      return writer_.bytes(y, n, out, [&](uint8_t* to) {
        ops_.mul_codes(x, other_.zero(), other_.scale(), many, n, writer_.scale(), writer_.grid(), to);
      });
    }
    const float *const one = other_.row(x, n, in), *const a = operand_ == 0 ? many : one;
    float* const to = writer_.target(y, n, out);
    ops_.binary[static_cast<size_t>(s_.kind)](a, 1, operand_ == 0 ? one : many, 1, n, to);
    writer_.finish(to, 1.0f, y, n, out);
  }

  const FloatOps& ops_;
  BinarySpec s_;
  Walk<3> walk_;
  size_t operand_, length_;
  Rows rows_;
  RowReader repeated_, other_;
  RowWriter writer_;
};

}  // namespace

std::unique_ptr<Step> make_binary(const FloatOps& ops, const TransposeOps& turn, const BinarySpec& spec) {
  demand(static_cast<size_t>(spec.kind) < kBinaryKinds, "no such function of two");
  const Walk<3> walk({spec.a.view, spec.b.view, spec.y.view});
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    if (BinaryOfRepeats::length(walk, operand) > 0)
      return std::make_unique<BinaryOfRepeats>(ops, spec, walk, operand);
  }
  return std::make_unique<Binary>(ops, turn, spec);
}

}  // namespace intact
