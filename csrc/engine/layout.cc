#include "engine/layout.h"

#include <algorithm>

#include "engine/caller_arrays.h"
#include "engine/failure.h"
#include "engine/kinds/moved.h"

namespace intact::engine {
namespace {

constexpr double kMostBytes = 0x1p44;  // of one tensor: no sum of a few of them overflows

// Channels last. Neighbouring rows share the halo between them, and neighbouring images theirs: all bytes of
// a halo are the zero point, so that what lies right of one row can be what lies left of the next.
Frame image_frame(const Shape& shape, int64_t itemsize, const Halo& halo) {
  const int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  const auto [top, left, bottom, right] = halo;
  const double whole =
      std::max(1.0, static_cast<double>(n)) * static_cast<double>(h + std::max(top, bottom) + top) *
      static_cast<double>(w + std::max(left, right) + left) * static_cast<double>(c * itemsize);
  if (whole > kMostBytes) fail(INTACT_BAD_SHAPE, "an image", text_of(shape) + " with its borders", "less");
  const int64_t pixel = c * itemsize;
  const int64_t row = (w + std::max(left, right)) * pixel;
  const int64_t image = (h + std::max(top, bottom)) * row;
  const int64_t first = top * row + left * pixel;
  const int64_t last = first + (n - 1) * image + (h - 1 + bottom) * row + (w + right) * pixel;
  const bool there = n > 0 && h + top + bottom > 0 && w + left + right > 0 && c > 0;
  return {{image, itemsize, row, pixel}, first, there ? last : 0, halo};
}

// What lies channels last: what steps ask for, then what can follow without a contradiction.
std::vector<bool> find_images(const Plan& plan, const std::vector<bool>& outer) {
  std::vector<bool> images(plan.tensors.size());
  const auto is_image = [&](int v) { return plan.tensor(v).rank() == 4; };
  std::vector<std::vector<int>> followers;
  for (const auto& step : plan.steps) {
    std::vector<int> values;
    each_tensor(plan, *step, [&](int v) {
      if (is_image(v)) values.push_back(v);
    });
    if (step->traits.images) {
      for (const int v : values) images[static_cast<size_t>(v)] = true;
    }
    if (step->traits.follows) followers.push_back(std::move(values));
  }
  // An element-wise step takes any order that all its tensors have. Where one of them is an image the others
  // had better be, else somebody turns them round. That goes with the steps and against them: a fixed point.
  for (bool grown = true; grown;) {
    grown = false;
    for (const auto& values : followers) {
      const bool any =
          std::any_of(values.begin(), values.end(), [&](int v) { return images[static_cast<size_t>(v)]; });
      if (!any) continue;
      for (const int v : values) {
        const auto at = static_cast<size_t>(v);
        if (images[at] || outer[at]) continue;
        images[at] = grown = true;
      }
    }
  }
  return images;
}

template <class... Kinds>
bool is_any(const PlanStep& step) {
  return ((dynamic_cast<const Kinds*>(&step) != nullptr) || ...);
}

bool may_move_nothing(const PlanStep& step) { return is_any<Reshape, Transpose, Slice, Concat>(step); }

// Finds tensors that can be others' memory, so that steps which only move them need not run. Frames of
// tensors that may lie in any order are changed, so that there are more of them.
class Aliases {
 public:
  Aliases(const Plan& plan, const LayoutPlan& known, const std::vector<Shape>& shapes, Layout& layout)
      : plan_(plan), known_(known), shapes_(shapes), layout_(layout) {}

  void find() {
    for (const size_t i : known_.movers) {
      if (const auto* const reshape = step<Reshape>(i)) {
        consider(reshape->x, reshape->y, [&] { return stays(*reshape) || follows(*reshape); }, reshape);
      } else if (const auto* const transpose = step<Transpose>(i)) {
        consider(transpose->x, transpose->y, [&] { return turns(*transpose); }, nullptr);
      }
    }
    for (const Slice* slice : parts()) take_part(*slice);
    for (const size_t i : known_.movers) {
      const auto* const concat = step<Concat>(i);
      if (concat != nullptr && !outer(concat->y) && root(concat->y) == concat->y) join(*concat);
    }
  }

 private:
  template <class Kind>
  const Kind* step(size_t i) const {
    return dynamic_cast<const Kind*>(plan_.steps[i].get());
  }
  bool outer(int v) const { return known_.outer[static_cast<size_t>(v)]; }
  // In the caller's array: an input or output that is not staged.
  bool direct(int v) const { return outer(v) && !layout_.staged[static_cast<size_t>(v)]; }
  int& root(int v) { return layout_.roots[static_cast<size_t>(v)]; }
  Frame& frame(int v) { return layout_.frames[static_cast<size_t>(v)]; }
  const Shape& shape(int v) const { return shapes_[static_cast<size_t>(v)]; }
  const PlanStep* maker(int v) const {
    const int at = plan_.makers[static_cast<size_t>(v)];
    return at < 0 ? nullptr : plan_.steps[static_cast<size_t>(at)].get();
  }
  const std::vector<int>& readers(int v) const { return plan_.readers[static_cast<size_t>(v)]; }
  bool has_alias(int v) const {
    for (size_t i = 0; i < layout_.roots.size(); ++i) {
      if (layout_.roots[i] == v && static_cast<int>(i) != v) return true;
    }
    return false;
  }

  template <class Possible>
  void consider(int x, int y, const Possible& possible, const Reshape* reshape) {
    // An image with a halo is not dense: under another shape its borders would be elements.
    if (frame(x).halo != kNoHalo || frame(y).halo != kNoHalo || !same_bytes(x, y)) return;
    if (outer(y)) {
      if (direct(y) && reshape != nullptr && !outer(x)) end_in_output(*reshape);
    } else if (outer(x) && !direct(x)) {
      return;
    } else if (possible()) {
      root(y) = root(x);
    }
  }

  // Slices that only concatenations read, or further such slices, in order: space to depth is those.
  std::vector<const Slice*> parts() {
    std::vector<const Slice*> found;
    std::vector<bool> is_part(plan_.steps.size());
    for (auto place = known_.movers.rbegin(); place != known_.movers.rend(); ++place) {
      const size_t i = *place;
      const auto* const slice = step<Slice>(i);
      if (slice == nullptr || outer(slice->y) || root(slice->y) != slice->y) continue;
      const auto& all = readers(slice->y);
      const bool joined = std::all_of(all.begin(), all.end(), [&](int r) {
        const auto at = static_cast<size_t>(r);
        return is_part[at] || step<Concat>(at) != nullptr;
      });
      if (all.empty() || !joined || !same_bytes(slice->x, slice->y)) continue;
      is_part[i] = true;
      found.push_back(slice);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  // y is every so many elements of x, in x's memory.
  void take_part(const Slice& step) {
    const Frame& x = frame(step.x);
    Frame& y = frame(step.y);
    int64_t first = x.first;
    Axes strides = x.strides;
    for (int i = 0; i < strides.rank; ++i) {
      const auto at = static_cast<size_t>(i);
      if (elements(shape(step.y)) != 0) first += step.starts[at] * x.strides[i];
      strides[i] = shape(step.y)[i] > 1 ? step.steps[at] * x.strides[i] : 0;
    }
    y = {strides, first, y.nbytes, kNoHalo};
    root(step.y) = root(step.x);
  }

  // Inputs that nobody else reads are written where the concatenation wants them: another reader might want
  // the input dense, or with a halo; and an input that is an alias, or has some, would take others along.
  void join(const Concat& step) {
    const Frame y = frame(step.y);
    const int axis = static_cast<int>(step.axis < 0 ? step.axis + y.strides.rank : step.axis);
    int64_t start = 0;
    for (const int x : step.xs) {
      if (plan_.is_constant(x)) {
        start += plan_.constant(x).shape[axis];
        continue;
      }
      const bool alone = readers(x).size() == 1 && !outer(x);
      const bool whole = root(x) == x && !has_alias(x);
      const PlanStep* const made_by = maker(x);
      // What writes images writes parts of images alone.
      const bool image = y.strides.rank == 4 && is_fixed(step.y);
      const bool parts =
          made_by != nullptr && made_by->traits.writes_parts && (image || !made_by->traits.images);
      if (alone && whole && parts && same_bytes(x, step.y)) {
        frame(x).strides = y.strides;
        frame(x).first = y.first + start * y.strides[axis];
        root(x) = step.y;
      }
      start += shape(x)[axis];
    }
  }

  // What becomes an output of the plan is made in its memory, with all that shares it.
  void end_in_output(const Reshape& step) {
    if (root(step.x) != step.x || maker(step.x) == nullptr || !stays(step)) return;
    for (int& one : layout_.roots) {
      if (one == step.x) one = step.y;
    }
  }

  bool stays(const Reshape& step) { return is_dense(step.x) && is_dense(step.y); }

  // Whether y, which is x but for axes of size 1, can lie as x does.
  bool follows(const Reshape& step) {
    Axes strides;
    if (!same_strides_under(shape(step.x), frame(step.x).strides, shape(step.y), strides)) return false;
    if (same_strides(shape(step.y), strides, frame(step.y).strides)) return true;
    if (!is_free(step.y) || readers(step.y).empty()) return false;
    frame(step.y).strides = strides;
    return true;
  }

  // Whether y lies as x does with its axes in another order, or one of the two can be made to: first as both
  // lie; then y follows x, which its readers have to take; last x follows y, which its maker has to write.
  bool turns(const Transpose& step) {
    Frame &x = frame(step.x), &y = frame(step.y);
    Axes moved = x.strides, back = x.strides;
    for (int i = 0; i < moved.rank; ++i) {
      const int axis = static_cast<int>(step.perm[static_cast<size_t>(i)]);
      moved[i] = x.strides[axis];
      back[axis] = y.strides[i];
    }
    if (same_strides(shape(step.y), moved, y.strides)) return true;
    if (is_free(step.y) && !readers(step.y).empty()) {
      y.strides = moved;
      return true;
    }
    const PlanStep* const made_by = maker(step.x);
    if (root(step.x) != step.x || made_by == nullptr || !made_by->traits.strided || !is_free(step.x))
      return false;
    x.strides = back;
    return true;
  }

  bool is_fixed(int v) const { return known_.images[static_cast<size_t>(v)] || outer(v); }
  // Whether all readers take a tensor as it lies.
  bool is_free(int v) const {
    if (is_fixed(v)) return false;
    const auto& all = readers(v);
    return std::all_of(all.begin(), all.end(),
                       [&](int r) { return takes_any(*plan_.steps[static_cast<size_t>(r)]); });
  }
  // Whether a step reads tensors with any strides at no cost: so one that only drops axes of size 1.
  bool takes_any(const PlanStep& step) const {
    const auto* reshape = dynamic_cast<const Reshape*>(&step);
    if (reshape == nullptr) return step.traits.strided;
    Axes found, zeros;
    for (int i = 0; i < shape(reshape->x).rank; ++i) zeros.push(0);
    return same_strides_under(shape(reshape->x), zeros, shape(reshape->y), found);
  }
  bool is_dense(int v) {
    return same_strides(shape(v), frame(v).strides, dense_strides(shape(v), plan_.tensor(v).itemsize()));
  }
  // Whether what means a number in one tensor means it in the other.
  bool same_bytes(int x, int y) const {
    const Codes *a = plan_.grid(x), *b = plan_.grid(y);
    return a == nullptr || b == nullptr ? a == b : a->same_numbers(*b);
  }

  const Plan& plan_;
  const LayoutPlan& known_;
  const std::vector<Shape>& shapes_;
  Layout& layout_;
};

// Whether steps can read and write a caller's array that is not dense. Windows on images go upwards. A tensor
// that is an output twice has two arrays.
bool is_touched_as_it_lies(const Plan& plan, const OuterArray& array,
                           const std::vector<OuterArray>& outputs) {
  const auto takes = [&](int step) {
    const Traits& traits = plan.steps[static_cast<size_t>(step)]->traits;
    return traits.strided || traits.follows;
  };
  const auto at = static_cast<size_t>(array.value);
  const auto is_same = [&](const OuterArray& other) { return other.value == array.value; };
  const auto& readers = plan.readers[at];
  return array.first == 0 && std::count_if(outputs.begin(), outputs.end(), is_same) < 2 &&
         (plan.makers[at] < 0 || takes(plan.makers[at])) &&
         std::all_of(readers.begin(), readers.end(), takes);
}

}  // namespace

bool same_strides(const Shape& shape, const Axes& a, const Axes& b) {
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

bool same_strides_under(const Shape& shape, const Axes& strides, const Shape& wanted, Axes& found) {
  found = {};
  int at = 0;
  const auto skip_ones = [&] {
    while (at < shape.rank && shape[at] == 1) ++at;
  };
  for (int i = 0; i < wanted.rank; ++i) {
    if (wanted[i] == 1) {
      found.push(0);
      continue;
    }
    skip_ones();
    if (at >= shape.rank || shape[at] != wanted[i]) return false;
    found.push(strides[at++]);
  }
  skip_ones();
  return at == shape.rank;
}

LayoutPlan::LayoutPlan(const Plan& plan) : outer(plan.tensors.size()), both(plan.tensors.size()) {
  for (const int v : plan.inputs) outer[static_cast<size_t>(v)] = true;
  for (const int v : plan.outputs) {
    both[static_cast<size_t>(v)] = outer[static_cast<size_t>(v)];
    outer[static_cast<size_t>(v)] = true;
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (may_move_nothing(*plan.steps[i])) movers.push_back(i);
  }
  images = find_images(plan, outer);
  halos.assign(plan.tensors.size(), kNoHalo);
  for (const auto& step : plan.steps) {
    for (const int v : step->reads) {
      if (!plan.is_tensor(v)) continue;
      const Halo wanted = step->halo(plan, v);
      Halo& halo = halos[static_cast<size_t>(v)];
      for (size_t i = 0; i < 4; ++i) halo[i] = std::max(halo[i], wanted[i]);
    }
  }
}

Layout lay_out(const Plan& plan, const LayoutPlan& known, const std::vector<Shape>& shapes,
               const std::vector<OuterArray>& inputs, const std::vector<OuterArray>& outputs) {
  Layout found;
  const size_t count = plan.tensors.size();
  found.frames.resize(count);
  found.roots.resize(count);
  found.staged.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int v = static_cast<int>(i);
    const int64_t itemsize = plan.tensor(v).itemsize();
    found.roots[i] = v;
    found.frames[i] = known.images[i] ? image_frame(shapes[i], itemsize, known.halos[i])
                                      : Frame{dense_strides(shapes[i], itemsize), 0,
                                              product(elements(shapes[i]), itemsize), kNoHalo};
    // A caller's array is row-major and ends where it ends. Images lie in another order, and kernels read a
    // little beyond codes (kSlack): both are copied, and lie in the arena meanwhile.
    found.staged[i] = known.outer[i] && !plan.tensor(v).is_string &&
                      (known.images[i] || known.both[i] || plan.tensor(v).codes.has_value());
  }
  for (const auto* const arrays : {&inputs, &outputs}) {
    for (const OuterArray& array : *arrays) {
      if (array.is_dense || found.staged[static_cast<size_t>(array.value)]) continue;
      if (is_touched_as_it_lies(plan, array, outputs)) {
        found.frames[static_cast<size_t>(array.value)] = {array.strides, 0, array.nbytes, kNoHalo};
      } else {
        found.staged[static_cast<size_t>(array.value)] = true;
      }
    }
  }
  Aliases(plan, known, shapes, found).find();
  return found;
}

}  // namespace intact::engine
