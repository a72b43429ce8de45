// The C interface (include/intact.h): no exception leaves it, and what went wrong is a status and a text.
#include "intact.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "engine/bound.h"
#include "engine/failure.h"
#include "engine/selftest.h"
#include "engine/session.h"

#ifndef INTACT_VERSION
#define INTACT_VERSION "0"
#endif

using intact::engine::Bound;
using intact::engine::Failure;
using intact::engine::OpenPlan;
using intact::engine::Shape;
using intact::engine::StepLabel;

using intact::engine::require;

struct intact_plan {
  OpenPlan open;
};

struct intact_session : intact::engine::Session {
  using Session::Session;
  std::atomic<bool> is_busy{false}, is_cancelled{false};
};

namespace {

constexpr int32_t kMostThreads = 1024;  // as intact.limits says

intact_status report(intact_error* error, intact_status status, const char* text) {
  if (error == nullptr || error->size < sizeof(size_t) + sizeof(intact_status) + 1) return status;
  error->status = status;
  const size_t room = std::min(error->size, sizeof(intact_error)) - offsetof(intact_error, text);
  const size_t length = std::min(std::strlen(text), room - 1);
  std::memcpy(error->text, text, length);
  error->text[length] = '\0';
  return status;
}

template <class Body>
intact_status guarded(intact_error* error, const Body& body) {
  try {
    body();
    return INTACT_OK;
  } catch (const Failure& failure) {
    return report(error, failure.status, failure.what());
  } catch (const std::bad_alloc&) {
    return report(error, INTACT_NO_MEMORY, "there is not enough memory");
  } catch (const std::exception& other) {
    return report(error, INTACT_INTERNAL, other.what());
  } catch (...) {
    return report(error, INTACT_INTERNAL, "an unknown fault");
  }
}

// Has a session for one call, or refuses where another thread has it.
class Turn {
 public:
  explicit Turn(intact_session* session) : session_(session) {
    require(session != nullptr, "a session is wanted");
    require(!session->is_busy.exchange(true, std::memory_order_acquire),
            "another thread uses the session: have one for each thread");
  }
  ~Turn() { session_->is_busy.store(false, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  intact_session* const session_;
};

// The caller's options; defaults stand for fields that its header did not have yet.
intact_options options_of(const intact_options* given) {
  intact_options options{};
  if (given == nullptr) return options;
  require(given->size >= offsetof(intact_options, parallel_for) && given->size <= sizeof options,
          "options: want their size");
  std::memcpy(&options, given, given->size);
  require(options.threads >= 0 && options.threads <= kMostThreads, "threads: want 0 to 1024");
  return options;
}

int threads_of(const intact_options& options) {
  if (options.threads > 0) return options.threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

void open_plan(intact::engine::Bytes file, const std::string& where, const intact_options* given,
               intact_plan** plan) {
  const intact_options options = options_of(given);
  const intact::HostPool host{options.parallel_for, options.pool};
  *plan = new intact_plan{{std::move(file), where, threads_of(options), options.max_isa, host}};
}

void describe(const intact_plan* plan, const std::vector<int>& ports, size_t index, intact_port* port) {
  require(port != nullptr && port->size == sizeof(intact_port), "port: want its size");
  require(index < ports.size(), "index: there are fewer ports");
  const auto& tensor = plan->open.plan.tensor(ports[index]);
  intact_port found{};
  found.size = sizeof found;
  found.name = tensor.name.c_str();
  found.type = static_cast<intact_type>(tensor.outer_type());
  found.rank = tensor.rank();
  for (int i = 0; i < found.rank; ++i) {
    const auto& dim = tensor.shape[static_cast<size_t>(i)];
    found.shape[i] = dim.text < 0 ? dim.value : -1;
    found.dimension[i] = dim.text < 0 ? nullptr : plan->open.plan.dims.text(dim).c_str();
  }
  if (tensor.codes) {
    found.is_codes = 1;
    found.scale = tensor.codes->scale32();
    found.zero_point = tensor.codes->zero_point;
  }
  *port = found;
}

void run(intact_session& session, const void* const* inputs, void* const* outputs, double* seconds) {
  session.is_cancelled.store(false, std::memory_order_relaxed);
  Bound& bound = session.prepared();
  require(inputs != nullptr || session.open.plan.inputs.empty(), "arrays of all inputs are wanted");
  require(outputs != nullptr || session.open.plan.outputs.empty(), "arrays of all outputs are wanted");
  bound.run(inputs, outputs, session.is_cancelled, seconds);
}

static_assert(static_cast<int>(intact::Type::f64) == INTACT_FLOAT64 &&
              static_cast<int>(intact::Type::b8) == INTACT_BOOL);
static_assert(INTACT_MAX_RANK == intact::kMaxRank);

}  // namespace

extern "C" {

int32_t intact_api_version(void) { return INTACT_API_VERSION; }
const char* intact_version(void) { return INTACT_VERSION; }

intact_status intact_open(const char* path, const intact_options* options, intact_plan** plan,
                          intact_error* error) {
  return guarded(error, [&] {
    require(path != nullptr && plan != nullptr, "a path and a place for the plan are wanted");
    *plan = nullptr;
    open_plan(intact::engine::map_file(path), "file '" + std::string(path) + "'", options, plan);
  });
}

intact_status intact_open_memory(const void* data, size_t bytes, const intact_options* options,
                                 intact_plan** plan, intact_error* error) {
  return guarded(error, [&] {
    require((data != nullptr || bytes == 0) && plan != nullptr, "bytes and a place for the plan are wanted");
    *plan = nullptr;
    open_plan(intact::engine::borrow(data, bytes), "the plan", options, plan);
  });
}

void intact_close(intact_plan* plan) { delete plan; }

size_t intact_input_count(const intact_plan* plan) {
  return plan == nullptr ? 0 : plan->open.plan.inputs.size();
}
size_t intact_output_count(const intact_plan* plan) {
  return plan == nullptr ? 0 : plan->open.plan.outputs.size();
}

intact_status intact_input(const intact_plan* plan, size_t index, intact_port* port, intact_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr, "a plan is wanted");
    describe(plan, plan->open.plan.inputs, index, port);
  });
}

intact_status intact_output(const intact_plan* plan, size_t index, intact_port* port, intact_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr, "a plan is wanted");
    describe(plan, plan->open.plan.outputs, index, port);
  });
}

intact_status intact_selftest(intact_plan* plan, intact_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr, "a plan is wanted");
    intact::engine::run_selftest(plan->open);
  });
}

intact_status intact_session_new(intact_plan* plan, intact_session** session, intact_error* error) {
  return guarded(error, [&] {
    require(plan != nullptr && session != nullptr, "a plan and a place for the session are wanted");
    *session = new intact_session(plan->open);
  });
}

void intact_session_free(intact_session* session) { delete session; }

intact_status intact_set_input_type(intact_session* session, size_t index, intact_type type,
                                    intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    session->set_type(false, index, type);
  });
}

intact_status intact_set_output_type(intact_session* session, size_t index, intact_type type,
                                     intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    session->set_type(true, index, type);
  });
}

intact_status intact_set_input_strides(intact_session* session, size_t index, const int64_t* strides,
                                       size_t count, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    session->set_strides(false, index, strides, count);
  });
}

intact_status intact_set_output_strides(intact_session* session, size_t index, const int64_t* strides,
                                        size_t count, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    session->set_strides(true, index, strides, count);
  });
}

intact_status intact_prepare(intact_session* session, const intact_shape* shapes, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    session->prepare(shapes, nullptr, 0);
  });
}

intact_status intact_workspace_size(intact_session* session, const intact_shape* shapes,
                                    intact_memory* memory, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    require(memory != nullptr && memory->size == sizeof(intact_memory), "memory: want its size");
    const Bound& bound = session->bind(shapes);
    memory->workspace = bound.run_bytes();
    memory->binding = bound.nbytes();
  });
}

intact_status intact_prepare_in(intact_session* session, const intact_shape* shapes, void* workspace,
                                size_t bytes, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    require(workspace != nullptr && reinterpret_cast<uintptr_t>(workspace) % 64 == 0,
            "workspace: want memory at a multiple of 64");
    session->prepare(shapes, workspace, bytes);
  });
}

intact_status intact_output_shape(const intact_session* session, size_t index, intact_shape* shape,
                                  intact_error* error) {
  return guarded(error, [&] {
    require(session != nullptr && shape != nullptr, "a session and a place for the sizes are wanted");
    const Bound& bound = session->prepared();
    const auto& outputs = session->open.plan.outputs;
    require(index < outputs.size(), "index: there are fewer outputs");
    const Shape& found = bound.shape(outputs[index]);
    shape->rank = found.rank;
    for (int i = 0; i < INTACT_MAX_RANK; ++i) shape->sizes[i] = i < found.rank ? found[i] : 0;
  });
}

size_t intact_workspace_bytes(const intact_session* session) {
  return session == nullptr || !session->is_prepared() ? 0 : session->bytes();
}

intact_status intact_run(intact_session* session, const void* const* inputs, void* const* outputs,
                         intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    run(*session, inputs, outputs, nullptr);
  });
}

intact_status intact_profile(intact_session* session, const void* const* inputs, void* const* outputs,
                             double* seconds, size_t count, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    const size_t steps = session->prepared().step_count();
    require(count == steps && (seconds != nullptr || count == 0), "seconds: want one for each native step");
    run(*session, inputs, outputs, seconds);
  });
}

size_t intact_step_count(const intact_session* session) {
  return session == nullptr || !session->is_prepared() ? 0 : session->prepared().step_count();
}

intact_status intact_step_at(intact_session* session, size_t index, intact_step* step, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    const Bound& bound = session->prepared();
    require(step != nullptr && step->size == sizeof(intact_step), "step: want its size");
    require(index < bound.step_count(), "index: there are fewer steps");
    while (session->labels.size() < bound.step_count()) {
      session->labels.push_back(bound.label(session->labels.size()));
    }
    const StepLabel& label = session->labels[index];
    *step = {sizeof(intact_step), label.name.c_str(), label.kind.c_str(), label.kernel.c_str()};
  });
}

void intact_cancel(intact_session* session) {
  if (session != nullptr) session->is_cancelled.store(true, std::memory_order_relaxed);
}

}  // extern "C"
