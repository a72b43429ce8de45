#include "engine/micro_batches.h"

#include <algorithm>

namespace intact::engine {
namespace {

// Whether a step may treat images apart: all its tensors have four axes, and what stands for one is the same
// for all images.
bool treats_images_apart(const Plan& plan, const PlanStep& step) {
  if (!step.traits.by_image) return false;
  bool found = true;
  each_tensor(plan, step, [&](int v) { found = found && plan.tensor(v).rank() == 4; });
  for (const int v : step.reads) {
    if (plan.is_tensor(v)) continue;
    const Shape& shape = plan.constant(v).shape;
    found = found && (shape.rank < 4 || shape[0] == 1);
  }
  return found;
}

// How many images a step that treats them apart is about; 0 where they are not as many everywhere.
int64_t batch_of(const Plan& plan, const std::vector<Shape>& shapes, const PlanStep& step) {
  int64_t found = -1;
  each_tensor(plan, step, [&](int v) {
    const Shape& shape = shapes[static_cast<size_t>(v)];
    const int64_t count = shape.has(0) ? 0 : shape[0];
    found = found < 0 || found == count ? count : 0;
  });
  return std::max<int64_t>(found, 0);
}

// Bytes of one image in all that a step reads and makes.
int64_t image_bytes(const Plan& plan, const std::vector<Shape>& shapes, const PlanStep& step) {
  int64_t found = 0;
  each_tensor(plan, step, [&](int v) {
    const Shape& shape = shapes[static_cast<size_t>(v)];
    found += product(product({shape.begin() + 1, shape.end()}), plan.tensor(v).itemsize());
  });
  return found;
}

bool pays(const Plan& plan, const std::vector<Shape>& shapes, int64_t batch, const PlanStep& step) {
  if (batch < 2 || batch_of(plan, shapes, step) != batch) return false;
  int64_t weights = 0;
  for (const int constant : step.constants) weights += static_cast<int64_t>(plan.constant(constant).nbytes());
  return weights <= image_bytes(plan, shapes, step);
}

// As many images at a time as stay near the cores, in equal parts, while threads are busy for at least three
// quarters of the time.
int64_t images_at_a_time(int64_t batch, int64_t most_bytes, int64_t near_bytes, int64_t threads) {
  const int64_t near = std::max<int64_t>(1, near_bytes / std::max<int64_t>(1, most_bytes));
  for (int64_t n = std::min(batch, near); n > 0; --n) {
    const int64_t times = batch / n;
    if (batch % n == 0 && 4 * times >= 3 * threads * ((times + threads - 1) / threads)) return n;
  }
  return batch;
}

MicroBatches cut(const Plan& plan, const std::vector<Shape>& shapes, size_t begin, size_t end, int threads,
                 int64_t near_bytes) {
  int64_t most = 0;
  MicroBatches found{begin, end, 1, 1, std::vector<bool>(plan.tensors.size())};
  for (size_t i = begin; i < end; ++i) {
    most = std::max(most, image_bytes(plan, shapes, *plan.steps[i]));
    for (const int v : plan.steps[i]->writes) found.inner[static_cast<size_t>(v)] = true;
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (begin <= i && i < end) continue;
    each_tensor(plan, *plan.steps[i], [&](int v) { found.inner[static_cast<size_t>(v)] = false; });
  }
  for (const auto* ports : {&plan.inputs, &plan.outputs}) {
    for (const int v : *ports) found.inner[static_cast<size_t>(v)] = false;
  }
  const int64_t batch = batch_of(plan, shapes, *plan.steps[begin]);
  found.images = images_at_a_time(batch, most, near_bytes, threads);
  found.times = batch / found.images;
  return found;
}

}  // namespace

std::vector<MicroBatches> find_micro_batches(const Plan& plan, const std::vector<Shape>& shapes, int threads,
                                             int64_t near_bytes) {
  const auto is_apart = [&](size_t i) {
    return !plan.of_sizes[i] && treats_images_apart(plan, *plan.steps[i]);
  };
  std::vector<MicroBatches> found;
  for (size_t begin = 0; begin < plan.steps.size();) {
    size_t end = begin;
    const int64_t batch = is_apart(begin) ? batch_of(plan, shapes, *plan.steps[begin]) : 0;
    while (end < plan.steps.size() && batch > 1 && is_apart(end) &&
           pays(plan, shapes, batch, *plan.steps[end])) {
      ++end;
    }
    if (end > begin + 1) {
      MicroBatches one = cut(plan, shapes, begin, end, threads, near_bytes);
      if (one.times > 1) found.push_back(std::move(one));
    }
    begin = std::max(end, begin + 1);
  }
  return found;
}

bool can_cut(const Plan& plan, const Layout& layout, const MicroBatches& steps) {
  bool found = true;
  const auto check = [&](int v) {
    const Axes& strides = layout.frames[static_cast<size_t>(v)].strides;
    found = found && strides[0] == *std::max_element(strides.begin(), strides.end());
    // What shares memory is all cut, or all whole.
    found = found && steps.has(layout.roots[static_cast<size_t>(v)]) == steps.has(v);
    for (size_t x = 0; x < layout.roots.size(); ++x) {
      if (layout.roots[x] == v) found = found && steps.inner[x] == steps.has(v);
    }
  };
  for (size_t i = steps.begin; i < steps.end; ++i) each_tensor(plan, *plan.steps[i], check);
  return found;
}

}  // namespace intact::engine
