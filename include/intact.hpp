// The C interface of intact.h for C++17: objects that free themselves, and exceptions in place of statuses.
//
//   intact::Plan plan("model.plan");
//   intact::Session session(plan);
//   session.prepare({{1, 3, 224, 224}});
//   std::vector<float> scores(session.output_size(0));
//   session.run({image.data()}, {scores.data()});
#ifndef INTACT_HPP
#define INTACT_HPP

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "intact.h"

namespace intact {

class Error : public std::runtime_error {
 public:
  explicit Error(const intact_error& error) : std::runtime_error(error.text), status_(error.status) {}
  intact_status status() const { return status_; }

 private:
  intact_status status_;
};

namespace detail {

// Calls `body` with an error of its own, and throws what it reports.
template <class Body>
void checked(const Body& body) {
  intact_error error{};
  error.size = sizeof error;
  if (body(&error) != INTACT_OK) throw Error(error);
}

struct Close {
  void operator()(intact_plan* plan) const { intact_close(plan); }
  void operator()(intact_session* session) const { intact_session_free(session); }
};

}  // namespace detail

using Sizes = std::vector<std::int64_t>;

// A piece of the work of a run; `index` is below the count that came with it.
struct Piece {
  intact_piece call;
  void* job;
  void operator()(std::int32_t index) const { call(job, index); }
};

// The program's own threads: calls piece(index) for every index from 0 to count - 1, as intact_parallel_for in intact.h
// says. What it throws ends the program.
using ParallelFor = std::function<void(Piece piece, std::int32_t count)>;

// An open plan file. Threads may share it; it outlives its sessions.
class Plan {
 public:
  // `threads`: of a run, the caller's included; 0: one for each processor. They are the library's own, unless
  // `parallel_for` has others.
  explicit Plan(const std::string& path, int threads = 0, ParallelFor parallel_for = nullptr) {
    intact_options options{};
    options.size = sizeof options;
    options.threads = threads;
    if (parallel_for) {
      parallel_for_ = std::make_unique<ParallelFor>(std::move(parallel_for));
      options.parallel_for = call;
      options.pool = parallel_for_.get();
    }
    intact_plan* plan = nullptr;
    detail::checked([&](intact_error* e) { return intact_open(path.c_str(), &options, &plan, e); });
    plan_.reset(plan);
  }

  std::size_t input_count() const { return intact_input_count(plan_.get()); }
  std::size_t output_count() const { return intact_output_count(plan_.get()); }
  intact_port input(std::size_t index) const { return port(index, intact_input); }
  intact_port output(std::size_t index) const { return port(index, intact_output); }
  // Throws an Error of INTACT_DIFFERENT where this machine computes something else than the one that built it.
  void selftest() const {
    detail::checked([&](intact_error* e) { return intact_selftest(plan_.get(), e); });
  }
  intact_plan* get() const { return plan_.get(); }

 private:
  template <class Get>
  intact_port port(std::size_t index, const Get& get) const {
    intact_port found{};
    found.size = sizeof found;
    detail::checked([&](intact_error* e) { return get(plan_.get(), index, &found, e); });
    return found;
  }

  static void call(void* pool, intact_piece piece, void* job, std::int32_t count) noexcept {
    (*static_cast<const ParallelFor*>(pool))(Piece{piece, job}, count);
  }

  std::unique_ptr<ParallelFor> parallel_for_;  // at an address that stays, and longer there than the plan
  std::unique_ptr<intact_plan, detail::Close> plan_;
};

// Runs a plan, for one thread at a time.
class Session {
 public:
  explicit Session(const Plan& plan) : inputs_(plan.input_count()), outputs_(plan.output_count()) {
    intact_session* session = nullptr;
    detail::checked([&](intact_error* e) { return intact_session_new(plan.get(), &session, e); });
    session_.reset(session);
  }

  // Sizes of every input, in order.
  void prepare(const std::vector<Sizes>& sizes) {
    const std::vector<intact_shape> shapes = shapes_of(sizes);
    detail::checked([&](intact_error* e) { return intact_prepare(session_.get(), shapes.data(), e); });
  }
  // The same; runs use the caller's memory, which lies at a multiple of 64 and has memory(sizes).workspace bytes.
  void prepare_in(const std::vector<Sizes>& sizes, void* workspace, std::size_t bytes) {
    const std::vector<intact_shape> shapes = shapes_of(sizes);
    detail::checked([&](intact_error* e) {
      return intact_prepare_in(session_.get(), shapes.data(), workspace, bytes, e);
    });
  }
  // What prepare takes for these sizes.
  intact_memory memory(const std::vector<Sizes>& sizes) {
    const std::vector<intact_shape> shapes = shapes_of(sizes);
    intact_memory found{};
    found.size = sizeof found;
    detail::checked([&](intact_error* e) {
      return intact_workspace_size(session_.get(), shapes.data(), &found, e);
    });
    return found;
  }

  // Of a prepared session.
  Sizes output_shape(std::size_t index) const {
    intact_shape shape{};
    detail::checked([&](intact_error* e) { return intact_output_shape(session_.get(), index, &shape, e); });
    return Sizes(shape.sizes, shape.sizes + shape.rank);
  }
  std::size_t output_size(std::size_t index) const {
    std::size_t elements = 1;
    for (const std::int64_t n : output_shape(index)) elements *= static_cast<std::size_t>(n);
    return elements;
  }
  std::size_t workspace_bytes() const { return intact_workspace_bytes(session_.get()); }

  // Arrays of the ports' types, dense unless strides were set, one for each port in order.
  void run(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) {
    check_count(inputs.size(), outputs.size());
    detail::checked([&](intact_error* e) { return intact_run(session_.get(), inputs.begin(), outputs.begin(), e); });
  }
  // Lets the arrays of an input or output of codes be floats, or codes again, from the next prepare on.
  void set_input_type(std::size_t index, intact_type type) {
    detail::checked([&](intact_error* e) { return intact_set_input_type(session_.get(), index, type, e); });
  }
  void set_output_type(std::size_t index, intact_type type) {
    detail::checked([&](intact_error* e) { return intact_set_output_type(session_.get(), index, type, e); });
  }

  // Lets the arrays of an input or output have these bytes between neighbours along each axis, from the next prepare
  // on. No strides, of a port that has axes: dense again.
  void set_input_strides(std::size_t index, const std::vector<std::int64_t>& strides) {
    detail::checked([&](intact_error* e) {
      return intact_set_input_strides(session_.get(), index, strides.empty() ? nullptr : strides.data(),
                                      strides.size(), e);
    });
  }
  void set_output_strides(std::size_t index, const std::vector<std::int64_t>& strides) {
    detail::checked([&](intact_error* e) {
      return intact_set_output_strides(session_.get(), index, strides.empty() ? nullptr : strides.data(),
                                       strides.size(), e);
    });
  }

  // Runs once; returns the seconds of every native step, in order.
  std::vector<double> profile(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) {
    check_count(inputs.size(), outputs.size());
    std::vector<double> seconds(intact_step_count(session_.get()));
    detail::checked([&](intact_error* e) {
      return intact_profile(session_.get(), inputs.begin(), outputs.begin(), seconds.data(), seconds.size(), e);
    });
    return seconds;
  }
  // A native step of a prepared session.
  intact_step step(std::size_t index) const {
    intact_step found{};
    found.size = sizeof found;
    detail::checked([&](intact_error* e) { return intact_step_at(session_.get(), index, &found, e); });
    return found;
  }

  // Stops a run of another thread, which throws an Error of INTACT_CANCELLED.
  void cancel() { intact_cancel(session_.get()); }

 private:
  std::vector<intact_shape> shapes_of(const std::vector<Sizes>& sizes) const {
    if (sizes.size() != inputs_) throw std::invalid_argument("sizes of every input are wanted");
    std::vector<intact_shape> shapes(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].size() > INTACT_MAX_RANK) throw std::invalid_argument("a rank is out of range");
      shapes[i].rank = static_cast<std::int32_t>(sizes[i].size());
      for (std::size_t axis = 0; axis < sizes[i].size(); ++axis) shapes[i].sizes[axis] = sizes[i][axis];
    }
    return shapes;
  }

  void check_count(std::size_t inputs, std::size_t outputs) const {
    if (inputs != inputs_ || outputs != outputs_) {
      throw std::invalid_argument("an array for every input and output is wanted");
    }
  }

  std::size_t inputs_, outputs_;
  std::unique_ptr<intact_session, detail::Close> session_;
};

}  // namespace intact

#endif  // INTACT_HPP
