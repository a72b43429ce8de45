#include "engine/session.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/failure.h"

namespace intact::engine {
namespace {

constexpr size_t kMostKept = size_t{1} << 26;  // bytes of bindings that a session keeps: intact.h says so

Shape shape_of(const intact_shape& given) {
  Shape found;
  for (int axis = 0; axis < given.rank; ++axis) found.push(given.sizes[axis]);
  return found;
}

}  // namespace

void require(bool holds, const char* text) {
  if (!holds) throw Failure(INTACT_BAD_ARGUMENT, text);
}

Session::Session(OpenPlan& open_)
    : open(open_),
      arrays_{std::vector<CallerArray>(open_.plan.inputs.size()),
              std::vector<CallerArray>(open_.plan.outputs.size())} {}

const std::vector<int>& Session::ports(bool is_output) const {
  return is_output ? open.plan.outputs : open.plan.inputs;
}

CallerArray& Session::array(bool is_output, size_t index) {
  require(index < ports(is_output).size(), "index: there are fewer ports");
  return (is_output ? arrays_.outputs : arrays_.inputs)[index];
}

void Session::unprepare() {
  bound_ = nullptr;
  labels.clear();
}

void Session::set_array(CallerArray& array, const CallerArray& wanted) {
  if (array == wanted) return;
  array = wanted;
  unprepare();
}

void Session::set_type(bool is_output, size_t index, intact_type type) {
  CallerArray& now = array(is_output, index);
  const auto& tensor = open.plan.tensor(ports(is_output)[index]);
  const bool is_own = type == static_cast<intact_type>(tensor.outer_type());
  require(is_own || (tensor.codes && type == INTACT_FLOAT32),
          "type: want the port's own, or INTACT_FLOAT32 for codes");
  CallerArray wanted = now;
  wanted.is_float = !is_own;
  set_array(now, wanted);
}

void Session::set_strides(bool is_output, size_t index, const int64_t* strides, size_t count) {
  CallerArray& now = array(is_output, index);
  CallerArray wanted = now;
  wanted.is_strided = strides != nullptr;
  wanted.strides = {};
  if (strides != nullptr) {
    const auto rank = static_cast<size_t>(open.plan.tensor(ports(is_output)[index]).rank());
    require(count == rank, "strides: want one for each axis");
    for (size_t i = 0; i < count; ++i) wanted.strides.push(strides[i]);
  }
  set_array(now, wanted);
}

bool Session::is_for(const KeptBound& kept, const intact_shape* shapes) const {
  for (size_t i = 0; i < kept.shapes.size(); ++i) {
    if (!(kept.shapes[i] == shape_of(shapes[i]))) return false;
  }
  return kept.arrays == arrays_;
}

void Session::check_shapes(const intact_shape* shapes) const {
  const size_t count = open.plan.inputs.size();
  require(shapes != nullptr || count == 0, "sizes of all inputs are wanted");
  for (size_t i = 0; i < count; ++i) {
    require(shapes[i].rank >= 0 && shapes[i].rank <= INTACT_MAX_RANK, "a rank is out of range");
  }
}

// The binding comes first in the list, or behind the one that the session is prepared for. Drops those that
// were used longest ago.
Bound& Session::find_or_bind(const intact_shape* shapes) {
  const auto place = bound_ == nullptr ? kept_.begin() : std::next(kept_.begin());
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const KeptBound& one) { return is_for(one, shapes); });
  if (known != kept_.end()) {
    if (known->bound.get() != bound_) kept_.splice(place, kept_, known);
    return *known->bound;
  }
  std::vector<Shape> wanted;
  for (size_t i = 0; i < open.plan.inputs.size(); ++i) wanted.push_back(shape_of(shapes[i]));
  auto bound = std::make_unique<Bound>(open.target(), wanted, arrays_);
  Bound& made = *bound;
  kept_.insert(place, {std::move(wanted), arrays_, std::move(bound)});
  kept_bytes_ += made.nbytes();
  while (kept_bytes_ > kMostKept && kept_.back().bound.get() != &made) {
    kept_bytes_ -= kept_.back().bound->nbytes();
    kept_.pop_back();
  }
  return made;
}

const Bound& Session::bind(const intact_shape* shapes) {
  check_shapes(shapes);
  return find_or_bind(shapes);
}

void Session::prepare(const intact_shape* shapes, void* memory, size_t bytes) {
  check_shapes(shapes);
  const bool is_there = workspace_->uses(memory, bytes);
  if (is_there && bound_ != nullptr && is_for(kept_.front(), shapes)) return;
  unprepare();
  Bound& bound = find_or_bind(shapes);
  if (memory != nullptr) bound.check_room(bytes);
  if (!is_there) workspace_->lend(memory, bytes);
  bound.prepare_run(workspace_);
  bound_ = &bound;
  open.plan.release_unread();
}

Bound& Session::prepared() const {
  if (bound_ == nullptr) throw Failure(INTACT_NOT_PREPARED, "the session is not prepared");
  return *bound_;
}

}  // namespace intact::engine
