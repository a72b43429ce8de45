// What a session of the C interface holds: bindings of one plan for the sizes that came last, and the memory
// of its runs.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "engine/bound.h"
#include "intact.h"

namespace intact::engine {

// Throws Failure (INTACT_BAD_ARGUMENT).
void require(bool holds, const char* text);

// A plan, bound for some sizes of its inputs and some arrays of its caller's.
struct KeptBound {
  std::vector<Shape> shapes;
  CallerArrays arrays;
  std::unique_ptr<Bound> bound;
};

// All methods throw Failure.
class Session {
 public:
  explicit Session(OpenPlan& open);

  // Sets what callers pass for an input, or get for an output: floats, or what it is.
  void set_type(bool is_output, size_t index, intact_type type);
  // Sets how callers' arrays of an input or output lie; nullptr: dense.
  void set_strides(bool is_output, size_t index, const int64_t* strides, size_t count);
  // Makes the session ready for these sizes, in the caller's memory or, nullptr, in its own.
  void prepare(const intact_shape* shapes, void* memory, size_t bytes);
  // Returns the binding for these sizes, which is made unless it is kept. The session stays prepared.
  const Bound& bind(const intact_shape* shapes);
  // The binding that the session is prepared for.
  Bound& prepared() const;
  bool is_prepared() const { return bound_ != nullptr; }
  // Bytes of its memory of runs, and of all bindings.
  size_t bytes() const { return workspace_->bytes() + kept_bytes_; }

  OpenPlan& open;
  std::vector<StepLabel> labels;  // of the native steps, once somebody has asked for one

 private:
  bool is_for(const KeptBound& kept, const intact_shape* shapes) const;
  void check_shapes(const intact_shape* shapes) const;
  const std::vector<int>& ports(bool is_output) const;
  CallerArray& array(bool is_output, size_t index);
  void set_array(CallerArray& array, const CallerArray& wanted);
  Bound& find_or_bind(const intact_shape* shapes);
  void unprepare();

  CallerArrays arrays_;
  // Memory of its runs, whatever their sizes.
  std::shared_ptr<Workspace> workspace_ = make_workspace();
  std::list<KeptBound> kept_;  // those that were used last come first
  size_t kept_bytes_ = 0;
  Bound* bound_ = nullptr;  // the first of them, once the session is prepared
};

}  // namespace intact::engine
