// The C interface (include/intact.h): no exception leaves it, and what went wrong is a status and a text.
#include "intact.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <new>
#include <string>
#include <thread>

#include "engine/bound.h"
#include "engine/failure.h"
#include "engine/selftest.h"

#ifndef INTACT_VERSION
#define INTACT_VERSION "0"
#endif

using intact::engine::Bound;
using intact::engine::Failure;
using intact::engine::FloatPorts;
using intact::engine::OpenPlan;
using intact::engine::Shape;
using intact::engine::StepLabel;

struct intact_plan {
  OpenPlan open;
};

// A plan, bound for some sizes of its inputs.
struct KeptBound {
  std::vector<Shape> shapes;
  std::unique_ptr<Bound> bound;
};

struct intact_session {
  explicit intact_session(OpenPlan& open_)
      : open(open_),
        floats{std::vector<bool>(open_.plan.inputs.size()), std::vector<bool>(open_.plan.outputs.size())} {}

  OpenPlan& open;
  FloatPorts floats;
  // Memory of its runs, whatever their sizes.
  std::shared_ptr<intact::Workspace> workspace = intact::make_workspace();
  std::list<KeptBound> kept;  // those that were used last come first
  size_t kept_bytes = 0;
  Bound* bound = nullptr;  // the first of them, once the session is prepared
  std::vector<StepLabel> labels;  // of the native steps, once somebody has asked for one
  std::atomic<bool> is_busy{false}, is_cancelled{false};
};

namespace {

constexpr int32_t kMostThreads = 1024;  // as intact.limits says
constexpr size_t kMostKept = size_t{1} << 26;  // bytes of bindings that a session keeps: intact.h says so

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

void require(bool holds, const char* text) {
  if (!holds) throw Failure(INTACT_BAD_ARGUMENT, text);
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

Shape shape_of(const intact_shape& given) {
  Shape found;
  for (int axis = 0; axis < given.rank; ++axis) found.push(given.sizes[axis]);
  return found;
}

bool is_for(const KeptBound& kept, const intact_shape* shapes) {
  for (size_t i = 0; i < kept.shapes.size(); ++i) {
    if (!(kept.shapes[i] == shape_of(shapes[i]))) return false;
  }
  return true;
}

void unprepare(intact_session& session) {
  session.bound = nullptr;
  session.labels.clear();
}

void forget(intact_session& session) {
  unprepare(session);
  session.kept.clear();
  session.kept_bytes = 0;
}

// Binds the plan for other sizes than are kept, and drops those that were used longest ago.
void bind(intact_session& session, const intact_shape* shapes) {
  std::vector<Shape> wanted;
  for (size_t i = 0; i < session.open.plan.inputs.size(); ++i) wanted.push_back(shape_of(shapes[i]));
  auto bound = std::make_unique<Bound>(session.open.target(), wanted, session.floats);
  session.kept_bytes += bound->nbytes();
  session.kept.push_front({std::move(wanted), std::move(bound)});
  while (session.kept_bytes > kMostKept && session.kept.size() > 1) {
    session.kept_bytes -= session.kept.back().bound->nbytes();
    session.kept.pop_back();
  }
}

const Bound& prepared(const intact_session& session) {
  if (!session.bound) throw Failure(INTACT_NOT_PREPARED, "the session is not prepared");
  return *session.bound;
}

// Sets what callers pass or get for a port: floats, or what it is.
void set_type(intact_session& session, const std::vector<int>& ports, std::vector<bool>& floats, size_t index,
              intact_type type) {
  require(index < ports.size(), "index: there are fewer ports");
  const auto& tensor = session.open.plan.tensor(ports[index]);
  const bool is_own = type == static_cast<intact_type>(tensor.outer_type());
  require(is_own || (tensor.codes && type == INTACT_FLOAT32),
          "type: want the port's own, or INTACT_FLOAT32 for codes");
  if (floats[index] == !is_own) return;
  floats[index] = !is_own;
  forget(session);
}

void run(intact_session& session, const void* const* inputs, void* const* outputs, double* seconds) {
  session.is_cancelled.store(false, std::memory_order_relaxed);
  prepared(session);
  require(inputs != nullptr || session.open.plan.inputs.empty(), "arrays of all inputs are wanted");
  require(outputs != nullptr || session.open.plan.outputs.empty(), "arrays of all outputs are wanted");
  session.bound->run(inputs, outputs, session.is_cancelled, seconds);
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
    set_type(*session, session->open.plan.inputs, session->floats.inputs, index, type);
  });
}

intact_status intact_set_output_type(intact_session* session, size_t index, intact_type type,
                                     intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    set_type(*session, session->open.plan.outputs, session->floats.outputs, index, type);
  });
}

intact_status intact_prepare(intact_session* session, const intact_shape* shapes, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    const size_t count = session->open.plan.inputs.size();
    require(shapes != nullptr || count == 0, "sizes of all inputs are wanted");
    for (size_t i = 0; i < count; ++i) {
      require(shapes[i].rank >= 0 && shapes[i].rank <= INTACT_MAX_RANK, "a rank is out of range");
    }
    auto& kept = session->kept;
    if (session->bound != nullptr && is_for(kept.front(), shapes)) return;
    unprepare(*session);
    const auto known =
        std::find_if(kept.begin(), kept.end(), [&](const KeptBound& one) { return is_for(one, shapes); });
    if (known == kept.end()) {
      bind(*session, shapes);
    } else {
      kept.splice(kept.begin(), kept, known);
    }
    kept.front().bound->prepare_run(session->workspace);
    session->bound = kept.front().bound.get();
    session->open.plan.release_unread();
  });
}

intact_status intact_output_shape(const intact_session* session, size_t index, intact_shape* shape,
                                  intact_error* error) {
  return guarded(error, [&] {
    require(session != nullptr && shape != nullptr, "a session and a place for the sizes are wanted");
    const Bound& bound = prepared(*session);
    const auto& outputs = session->open.plan.outputs;
    require(index < outputs.size(), "index: there are fewer outputs");
    const Shape& found = bound.shape(outputs[index]);
    shape->rank = found.rank;
    for (int i = 0; i < INTACT_MAX_RANK; ++i) shape->sizes[i] = i < found.rank ? found[i] : 0;
  });
}

size_t intact_workspace_bytes(const intact_session* session) {
  return session == nullptr || !session->bound ? 0 : session->workspace->bytes() + session->kept_bytes;
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
    const size_t steps = prepared(*session).step_count();
    require(count == steps && (seconds != nullptr || count == 0), "seconds: want one for each native step");
    run(*session, inputs, outputs, seconds);
  });
}

size_t intact_step_count(const intact_session* session) {
  return session == nullptr || !session->bound ? 0 : session->bound->step_count();
}

intact_status intact_step_at(intact_session* session, size_t index, intact_step* step, intact_error* error) {
  return guarded(error, [&] {
    const Turn turn(session);
    const Bound& bound = prepared(*session);
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
