#include "steps/recurrent.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/row_reader.h"
#include "steps/common/row_writer.h"

namespace intact {
namespace {

using namespace tuning::floats;

View view_of(const RealOut& y) { return y.view; }

// The scratch of one thread: rows of floats, `pitch` apart, and their addresses for a product.
struct Room {
  float *gates, *h, *c, *spare;
  const float** a;
  const float** reset;
  float** sums;
  float** candidates;
  int64_t* ends;
  size_t* active;
  uint8_t *line, *states;
};

class Recurrent final : public Step {
 public:
  Recurrent(const FloatOps& floats, const FloatGemmOps& products, const RecurrentSpec& spec);

  size_t items() const override { return directions_ * pieces_; }
  std::string name() const override { return dynamic_ ? name_of(s_.dynamic->products) : name_of(&products_); }
  size_t scratch() const override { return room_bytes(); }
  Weights weights() const override { return {}; }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const Room room = room_at(scratch);
    for (size_t item = begin; item < end; ++item) {
      const size_t piece = item % pieces_;
      walk(memory, item / pieces_, batch_ * piece / pieces_, batch_ * (piece + 1) / pieces_, room);
    }
  }

 private:
  void check();
  void declare();
  size_t room_bytes() const;
  Room room_at(uint8_t* scratch) const;
  size_t packed_floats(size_t columns) const {
    return (columns + products_.panel - 1) / products_.panel * products_.panel * hidden_;
  }
  bool resets_before() const { return s_.cell == Cell::gru; }
  size_t first_columns() const { return (resets_before() ? 2 : gates_) * hidden_; }
  size_t direction_floats() const {
    return packed_floats(first_columns()) + (resets_before() ? packed_floats(hidden_) : 0);
  }

  void walk(const Memory& memory, size_t d, size_t first, size_t end, const Room& room) const;
  void begin_rows(const Memory& memory, size_t d, size_t first, size_t count, const Room& room) const;
  size_t begin_step(const Memory& memory, size_t d, size_t first, size_t count, size_t step,
                    const Room& room) const;
  void load(const Memory& memory, size_t d, size_t row, size_t at, float* gates, float* spare) const;
  void multiply(const float* const* a, const float* packed, size_t columns, float* const* sums,
                size_t rows) const;
  void update(const float* packed, size_t rows, const Room& room) const;
  size_t place_of(size_t d, int64_t end, size_t step) const {
    return s_.reverse[d] ? static_cast<size_t>(end) - 1 - step : step;
  }
  void read_state(const Memory& memory, const std::optional<RealIn>& from, size_t d, size_t row, float* to,
                  const Room& room) const;
  void put(const Memory& memory, const RealOut& y, int64_t offset, const float* row, const Room& room) const;
  int64_t y_offset(size_t step, size_t d, size_t row) const {
    const auto& strides = s_.y->view.strides;
    return static_cast<int64_t>(step) * strides[0] + state_offset(strides[1], strides[2], d, row);
  }
  static int64_t state_offset(int64_t by_direction, int64_t by_row, size_t d, size_t row) {
    return static_cast<int64_t>(d) * by_direction + static_cast<int64_t>(row) * by_row;
  }

  const FloatOps& floats_;
  const FloatGemmOps& products_;
  RecurrentSpec s_;
  RealFunction function_;  // the activation of a simple network
  std::optional<DynamicStateProduct> dynamic_;
  size_t directions_, hidden_, gates_, steps_ = 0, batch_ = 0, pieces_ = 0;
};

Recurrent::Recurrent(const FloatOps& floats, const FloatGemmOps& products, const RecurrentSpec& spec)
    : floats_(floats),
      products_(products),
      s_(spec),
      function_(find_function(floats, spec.cell == Cell::rnn_relu ? "relu" : "tanh")->function),
      directions_(spec.reverse.size()),
      hidden_(static_cast<size_t>(spec.hidden)),
      gates_(static_cast<size_t>(gates_of(spec.cell))) {
  check();
  steps_ = static_cast<size_t>(s_.x.sizes[0]);
  batch_ = static_cast<size_t>(s_.x.sizes[1]);
  // The states of all rows have one range.
  const int64_t shared =
      s_.dynamic ? 1 : std::max<int64_t>(1, s_.threads / static_cast<int64_t>(directions_));
  pieces_ = static_cast<size_t>(std::min((s_.x.sizes[1] + kRecurrentRows - 1) / kRecurrentRows, shared));
  declare();
}

void demand_state(const View& v, std::array<int64_t, 3> sizes) {
  demand(v.rank == 3 && std::equal(sizes.begin(), sizes.end(), v.sizes.begin()),
         "a state is [directions, batch, hidden]");
  elements_of(v);
}

void Recurrent::check() {
  demand(0 < s_.hidden && s_.hidden < (int64_t{1} << 24), "the size of a state is out of range");
  demand(0 < directions_ && directions_ < 16 && s_.threads >= 1, "directions or threads are out of range");
  demand(s_.x.rank == 3 && s_.x.type == Type::f32, "x is float32 [steps, batch, gates]");
  elements_of(s_.x);
  demand(s_.x.sizes[2] == static_cast<int64_t>(directions_ * gates_ * hidden_), "x has other gates");
  if (s_.dynamic) {
    demand(s_.cell == Cell::lstm, "dynamic ranges are for lstm");
    dynamic_.emplace(*s_.dynamic, directions_, hidden_, gates_ * hidden_);
  } else {
    demand_vector(s_.packed, Type::f32, directions_ * direction_floats(), "weights are packed otherwise");
  }
  if (s_.bias) demand_vector(*s_.bias, Type::f32, directions_ * hidden_, "a bias for each state");
  if (s_.lengths) {
    demand(s_.lengths->type == Type::i32 && s_.lengths->rank == 1, "lengths are int32 [batch]");
    demand(s_.lengths->sizes[0] == s_.x.sizes[1], "a length for each row");
  }
  const std::array<int64_t, 3> state{static_cast<int64_t>(directions_), s_.x.sizes[1], s_.hidden};
  for (const auto& one : {s_.h, s_.c}) {
    if (!one) continue;
    demand_real(*one);
    demand_state(one->view, state);
  }
  for (const auto& one : {s_.last_h, s_.last_c}) {
    if (!one) continue;
    demand_real(*one);
    demand_state(one->view, state);
  }
  if (!s_.y) return;
  demand_real(*s_.y);
  const View& y = s_.y->view;
  elements_of(y);
  demand(y.rank == 4 && y.sizes[0] == s_.x.sizes[0] &&
             std::equal(state.begin(), state.end(), y.sizes.begin() + 1),
         "y is [steps, directions, batch, hidden]");
}

void Recurrent::declare() {
  reads(s_.x);
  if (!s_.dynamic) {
    reads(s_.packed);
  } else {
    for (const View* v : {&s_.dynamic->weight, &s_.dynamic->scales, &s_.dynamic->sums}) reads(*v);
    if (s_.dynamic->zeros) reads(*s_.dynamic->zeros);
  }
  for (const auto& one : {s_.bias, s_.lengths}) {
    if (one) reads(*one);
  }
  for (const auto& one : {s_.h, s_.c}) {
    if (one) reads(one->view);
  }
  for (const auto& one : {s_.y, s_.last_h, s_.last_c}) {
    if (one) writes(view_of(*one));
  }
}

size_t rows_of(size_t batch, size_t pieces) { return pieces == 0 ? 0 : (batch + pieces - 1) / pieces; }

size_t Recurrent::room_bytes() const {
  const size_t rows = rows_of(batch_, pieces_);
  const size_t floats =
      align64(rows * gates_ * hidden_ * sizeof(float)) + 3 * align64(rows * hidden_ * sizeof(float));
  const size_t line = align64(row_scratch(hidden_));
  return floats + 6 * align64(rows * sizeof(void*)) + line + (dynamic_ ? dynamic_->scratch(rows) : 0);
}

Room Recurrent::room_at(uint8_t* scratch) const {
  const size_t rows = rows_of(batch_, pieces_);
  const auto take = [&](size_t bytes) {
    uint8_t* const from = scratch;
    scratch += align64(bytes);
    return from;
  };
  const auto floats = [&](size_t n) { return reinterpret_cast<float*>(take(rows * n * sizeof(float))); };
  Room room;
  room.gates = floats(gates_ * hidden_);
  room.h = floats(hidden_);
  room.c = floats(hidden_);
  room.spare = floats(hidden_);
  room.a = reinterpret_cast<const float**>(take(rows * sizeof(void*)));
  room.reset = reinterpret_cast<const float**>(take(rows * sizeof(void*)));
  room.sums = reinterpret_cast<float**>(take(rows * sizeof(void*)));
  room.candidates = reinterpret_cast<float**>(take(rows * sizeof(void*)));
  room.ends = reinterpret_cast<int64_t*>(take(rows * sizeof(void*)));
  room.active = reinterpret_cast<size_t*>(take(rows * sizeof(void*)));
  room.line = take(row_scratch(hidden_));
  room.states = scratch;
  return room;
}

// Runs all steps of rows [first, end) of the batch in one direction.
void Recurrent::walk(const Memory& memory, size_t d, size_t first, size_t end, const Room& room) const {
  const size_t count = end - first;
  const float* const packed = dynamic_ ? nullptr : s_.packed.at<float>(memory) + d * direction_floats();
  begin_rows(memory, d, first, count, room);
  for (size_t step = 0; step < steps_; ++step) {
    const size_t rows = begin_step(memory, d, first, count, step, room);
    if (rows == 0) break;
    if (dynamic_) {
      dynamic_->add(memory, d, room.a, room.sums, rows, room.states);
    } else {
      multiply(room.a, packed, first_columns(), room.sums, rows);
    }
    update(packed, rows, room);
    for (size_t i = 0; s_.y && i < rows; ++i) {
      const size_t r = room.active[i], at = place_of(d, room.ends[r], step);
      put(memory, *s_.y, y_offset(at, d, first + r), room.h + r * hidden_, room);
    }
  }
  for (size_t r = 0; r < count; ++r) {
    for (const auto& [to, from] : {std::pair{&s_.last_h, room.h}, std::pair{&s_.last_c, room.c}}) {
      if (!*to) continue;
      const auto& strides = (*to)->view.strides;
      put(memory, **to, state_offset(strides[0], strides[1], d, first + r), from + r * hidden_, room);
    }
    std::fill_n(room.spare, hidden_, 0.0f);
    for (size_t at = static_cast<size_t>(room.ends[r]); s_.y && at < steps_; ++at) {
      put(memory, *s_.y, y_offset(at, d, first + r), room.spare, room);
    }
  }
}

// Loads the initial states and the number of steps of each row.
void Recurrent::begin_rows(const Memory& memory, size_t d, size_t first, size_t count,
                           const Room& room) const {
  for (size_t r = 0; r < count; ++r) {
    read_state(memory, s_.h, d, first + r, room.h + r * hidden_, room);
    read_state(memory, s_.c, d, first + r, room.c + r * hidden_, room);
    int64_t end = static_cast<int64_t>(steps_);
    if (s_.lengths) {
      int32_t length;
      const int64_t at = static_cast<int64_t>(first + r) * s_.lengths->strides[0];
      std::memcpy(&length, s_.lengths->at<uint8_t>(memory) + at, sizeof length);
      end = std::clamp<int64_t>(length, 0, end);
    }
    room.ends[r] = end;
  }
}

// Gathers the rows that have this step, and starts their sums with the sums over the inputs. Returns their
// number.
size_t Recurrent::begin_step(const Memory& memory, size_t d, size_t first, size_t count, size_t step,
                             const Room& room) const {
  size_t rows = 0;
  for (size_t r = 0; r < count; ++r) {
    if (static_cast<int64_t>(step) >= room.ends[r]) continue;
    float *const gates = room.gates + r * gates_ * hidden_, *const spare = room.spare + r * hidden_;
    load(memory, d, first + r, place_of(d, room.ends[r], step), gates, spare);
    room.active[rows] = r;
    room.a[rows] = room.h + r * hidden_;
    room.reset[rows] = spare;
    room.sums[rows] = gates;
    room.candidates[rows] = gates + 2 * hidden_;
    ++rows;
  }
  return rows;
}

void Recurrent::load(const Memory& memory, size_t d, size_t row, size_t at, float* gates,
                     float* spare) const {
  const size_t all = gates_ * hidden_;
  const View& x = s_.x;
  const int64_t offset = static_cast<int64_t>(at) * x.strides[0] + static_cast<int64_t>(row) * x.strides[1] +
                         static_cast<int64_t>(d * all) * x.strides[2];
  const uint8_t* const from = x.at<uint8_t>(memory) + offset;
  const RowReader reader(floats_, RealIn{x}, x.strides[2]);
  if (s_.cell != Cell::gru_reset_after) {
    reader.copy(from, all, gates, nullptr);
    return;
  }
  reader.copy(from, 2 * hidden_, gates, nullptr);
  reader.copy(from + static_cast<int64_t>(2 * hidden_) * x.strides[2], hidden_, spare, nullptr);
  if (s_.bias) {
    std::memcpy(gates + 2 * hidden_, s_.bias->at<float>(memory) + d * hidden_, hidden_ * sizeof *gates);
  } else {
    std::fill_n(gates + 2 * hidden_, hidden_, 0.0f);
  }
}

void Recurrent::multiply(const float* const* a, const float* packed, size_t columns, float* const* sums,
                         size_t rows) const {
  const ptrdiff_t offset = 0;
  products_.multiply(
      {a, &offset, 1, hidden_, 1, packed, hidden_ * products_.panel, nullptr, true, sums, rows, columns});
}

// Computes the next states from the sums of the gates.
void Recurrent::update(const float* packed, size_t rows, const Room& room) const {
  const size_t n = hidden_;
  const auto each = [&](const auto& body) {
    for (size_t i = 0; i < rows; ++i) {
      const size_t r = room.active[i];
      body(room.sums[i], room.h + r * n, room.c + r * n, room.spare + r * n);
    }
  };
  switch (s_.cell) {
    case Cell::lstm:
      each([&](float* gates, float* h, float* c, float*) { floats_.lstm(gates, n, c, h); });
      break;
    case Cell::gru:
      each([&](float* gates, float* h, float*, float* spare) { floats_.reset(gates + n, h, n, spare); });
      multiply(room.reset, packed + packed_floats(first_columns()), n, room.candidates, rows);
      each([&](float* gates, float* h, float*, float*) { floats_.gru(gates, gates + 2 * n, nullptr, n, h); });
      break;
    case Cell::gru_reset_after:
      each([&](float* gates, float* h, float*, float* spare) {
        floats_.reset(gates + n, gates + 2 * n, n, gates + 2 * n);
        floats_.gru(gates, gates + 2 * n, spare, n, h);
      });
      break;
    case Cell::rnn_relu:
    case Cell::rnn_tanh: each([&](float* gates, float* h, float*, float*) { function_(gates, h, n); });
  }
}

void Recurrent::read_state(const Memory& memory, const std::optional<RealIn>& from, size_t d, size_t row,
                           float* to, const Room& room) const {
  if (!from) {
    std::fill_n(to, hidden_, 0.0f);
    return;
  }
  const View& v = from->view;
  const uint8_t* const at = v.at<uint8_t>(memory) + state_offset(v.strides[0], v.strides[1], d, row);
  RowReader(floats_, *from, v.strides[2]).copy(at, hidden_, to, RowBuffer(room.line, hidden_, 0).bytes());
}

void Recurrent::put(const Memory& memory, const RealOut& y, int64_t offset, const float* row,
                    const Room& room) const {
  const RowWriter writer(floats_, y, y.view.strides[y.view.rank - 1]);
  const RowBuffer buffer(room.line, hidden_, 0);
  uint8_t* const at = y.view.at<uint8_t>(memory) + offset;
  float* const target = writer.target(at, hidden_, buffer);
  std::memcpy(target, row, hidden_ * sizeof *row);
  writer.finish(target, 1.0f, at, hidden_, buffer);
}

}  // namespace

std::unique_ptr<Step> make_recurrent(const FloatOps& floats, const FloatGemmOps& products,
                                     const RecurrentSpec& spec) {
  return std::make_unique<Recurrent>(floats, products, spec);
}

}  // namespace intact
