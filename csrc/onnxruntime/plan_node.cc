#include "onnxruntime/plan_node.h"

#include <algorithm>
#include <utility>

#include "onnxruntime/status.h"

namespace intact::ort {
namespace {

constexpr size_t kMissing = SIZE_MAX;

struct TypePair {
  ONNXTensorElementDataType onnx;
  intact_type plan;
  size_t bytes;
};

constexpr TypePair kTypes[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, INTACT_FLOAT32, 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, INTACT_UINT8, 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, INTACT_INT8, 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, INTACT_UINT16, 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, INTACT_INT16, 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, INTACT_INT32, 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, INTACT_INT64, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, INTACT_BOOL, 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, INTACT_FLOAT16, 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, INTACT_FLOAT64, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, INTACT_UINT32, 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, INTACT_UINT64, 8},
};

size_t bytes_of(intact_type type) {
  for (const TypePair& pair : kTypes)
    if (pair.plan == type) return pair.bytes;
  return 8;
}

// The run that this thread is in: its pieces go to the threads of that session of ONNX Runtime.
struct Run {
  const Api* api;
  const OrtKernelContext* context;
};
thread_local const Run* current_run = nullptr;

class ScopedRun {
 public:
  explicit ScopedRun(const Run& run) : before_(std::exchange(current_run, &run)) {}
  ~ScopedRun() { current_run = before_; }
  ScopedRun(const ScopedRun&) = delete;
  ScopedRun& operator=(const ScopedRun&) = delete;

 private:
  const Run* const before_;
};

struct Pieces {
  intact_piece piece;
  void* job;
};

void run_piece(void* data, size_t index) {
  const auto& pieces = *static_cast<const Pieces*>(data);
  pieces.piece(pieces.job, static_cast<int32_t>(index));
}

// intact_parallel_for on ONNX Runtime's threads. The C library does what an error leaves undone.
void run_on_ort_threads(void*, intact_piece piece, void* job, int32_t count) {
  Pieces pieces{piece, job};
  const Run* run = current_run;
  const auto total = static_cast<size_t>(count);
  if (count <= 1 || run == nullptr) {
    for (int32_t index = 0; index < count; ++index) piece(job, index);
  } else if (OrtStatus* status =
                 run->api->KernelContext_ParallelFor(run->context, &run_piece, total, total, &pieces);
             status != nullptr) {
    run->api->ReleaseStatus(status);
  }
}

size_t find(const std::vector<Value>& values, const std::string& name) {
  const auto has_name = [&](const Value& value) { return value.name == name; };
  const auto value = std::find_if(values.begin(), values.end(), has_name);
  return value == values.end() ? kMissing : static_cast<size_t>(value - values.begin());
}

int64_t count_elements(const intact_shape& shape) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < shape.rank; ++axis) count *= shape.sizes[axis];
  return count;
}

OrtStatus* INTACT_ORT_CALL create_state(OrtNodeComputeInfo* node, OrtNodeComputeContext*,
                                        void** state) noexcept {
  *state = node;
  return nullptr;
}

void INTACT_ORT_CALL release_state(OrtNodeComputeInfo*, void*) noexcept {}

}  // namespace

PlanNode::PlanNode(const Api& api, const OrtGraph* graph, const OrtNode* fused, int32_t threads,
                   const std::string& context_path)
    : api_(api) {
  CreateState = &create_state;
  ReleaseState = &release_state;
  Compute = [](OrtNodeComputeInfo* node, void*, OrtKernelContext* context) noexcept {
    auto& plan_node = *static_cast<PlanNode*>(node);
    return guarded(plan_node.api_, [&] { plan_node.run(context); });
  };
  const std::vector<const OrtNode*> nodes = nodes_of(api, graph);
  if (nodes.size() != 1 || !is_context_node(api, nodes[0]))
    fail(ORT_INVALID_GRAPH, "a graph of other nodes than one EPContext node of this provider");
  PlanSource source = read_plan_source(api, graph, nodes[0], context_path);
  open(source, threads);
  bytes_ = std::move(source.bytes);
  map_ports(nodes[0], fused);
  idle_.push_back(make_session());
  read_weights(idle_.back().get());
}

void PlanNode::open(const PlanSource& source, int32_t threads) {
  intact_options options{};
  options.size = sizeof options;
  options.threads = threads;
  options.parallel_for = &run_on_ort_threads;
  ErrorText error;
  intact_plan* plan = nullptr;
  if (source.file.empty())
    require(intact_open_memory(source.bytes.data.get(), source.bytes.size, &options, &plan, &error), error);
  else
    require(intact_open(source.file.string().c_str(), &options, &plan, &error), error);
  plan_.reset(plan);
}

void PlanNode::map_ports(const OrtNode* node, const OrtNode* fused) {
  const auto map_all = [&](const std::string& what, const std::vector<Value>& values,
                           const std::vector<Value>& fused_values, size_t count, auto describe,
                           std::vector<Port>& ports) {
    if (values.size() != count)
      fail(ORT_INVALID_GRAPH, "an EPContext node with " + std::to_string(values.size()) + " " + what +
                                  " and a plan with " + std::to_string(count) + ": want as many");
    for (size_t index = 0; index < count; ++index) {
      intact_port port{};
      port.size = sizeof port;
      ErrorText error;
      require(describe(plan_.get(), index, &port, &error), error);
      ports.push_back(map_port(values[index], fused_values, port));
    }
  };
  const intact_plan* plan = plan_.get();
  map_all("inputs", inputs_of(api_, node), inputs_of(api_, fused), intact_input_count(plan), &intact_input,
          inputs_);
  map_all("outputs", outputs_of(api_, node), outputs_of(api_, fused), intact_output_count(plan),
          &intact_output, outputs_);
  for (const Port& port : inputs_)
    if (port.index == kMissing)
      fail(ORT_INVALID_GRAPH, "the EPContext node leaves out input '" + port.name + "' of its plan");
}

PlanNode::Port PlanNode::map_port(const Value& value, const std::vector<Value>& fused,
                                  const intact_port& port) const {
  Port mapped{find(fused, value.name), value.type, port.type, false, port.name};
  const auto pair = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypePair& p) { return p.onnx == value.type; });
  if (pair != std::end(kTypes) && pair->plan == port.type) return mapped;
  if (pair == std::end(kTypes) || pair->plan != INTACT_FLOAT32 || !port.is_codes)
    fail(ORT_INVALID_GRAPH, "'" + mapped.name + "' has another element type in the EPContext node (" +
                                std::to_string(value.type) + " of ONNX) than in the plan");
  mapped.array_type = INTACT_FLOAT32;
  mapped.is_converted = true;
  return mapped;
}

PlanNode::Session PlanNode::make_session() const {
  ErrorText error;
  intact_session* made = nullptr;
  require(intact_session_new(plan_.get(), &made, &error), error);
  Session session(made);
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].is_converted) require(intact_set_input_type(made, i, INTACT_FLOAT32, &error), error);
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].is_converted) require(intact_set_output_type(made, i, INTACT_FLOAT32, &error), error);
  return session;
}

void PlanNode::read_weights(intact_session* session) const {
  ErrorText error;
  std::vector<intact_shape> shapes;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    intact_port port{};
    port.size = sizeof port;
    require(intact_input(plan_.get(), i, &port, &error), error);
    intact_shape& shape = shapes.emplace_back(intact_shape{port.rank, {}});
    for (int32_t axis = 0; axis < port.rank; ++axis)
      shape.sizes[axis] = port.shape[axis] < 0 ? 1 : port.shape[axis];
  }
  const intact_status status = intact_prepare(session, shapes.data(), &error);
  if (status == INTACT_BAD_FILE) require(status, error);
}

void PlanNode::run(OrtKernelContext* context) {
  Session session;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      session = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (session == nullptr) session = make_session();
  run_session(session.get(), context);  // a session whose run failed is dropped
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(session));
}

const void* PlanNode::read_input(const OrtKernelContext* context, const Port& port,
                                 intact_shape* shape) const {
  const OrtValue* value = nullptr;
  require(api_.KernelContext_GetInput(context, port.index, &value));
  if (value == nullptr) fail(ORT_INVALID_ARGUMENT, "input '" + port.name + "' is missing");
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  require(api_.GetTensorTypeAndShape(value, &raw));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api_.ReleaseTensorTypeAndShapeInfo)> info(
      raw, api_.ReleaseTensorTypeAndShapeInfo);
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  require(api_.GetTensorElementType(raw, &type));
  size_t rank = 0;
  require(api_.GetDimensionsCount(raw, &rank));
  if (type != port.type || rank > INTACT_MAX_RANK)
    fail(ORT_INVALID_ARGUMENT, "input '" + port.name + "' has another element type, or " +
                                   std::to_string(rank) + " dimensions: want at most 6");
  shape->rank = static_cast<int32_t>(rank);
  if (rank > 0) require(api_.GetDimensions(raw, shape->sizes, rank));
  const void* data = nullptr;
  require(api_.GetTensorData(value, &data));
  return data;
}

void PlanNode::run_session(intact_session* session, OrtKernelContext* context) const {
  std::vector<intact_shape> shapes(inputs_.size());
  std::vector<const void*> inputs(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) inputs[i] = read_input(context, inputs_[i], &shapes[i]);
  const Run run{&api_, context};
  const ScopedRun scope(run);
  ErrorText error;
  require(intact_prepare(session, shapes.data(), &error), error);
  std::vector<void*> outputs(outputs_.size());
  std::vector<std::unique_ptr<char[]>> unread;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    intact_shape shape{};
    require(intact_output_shape(session, i, &shape, &error), error);
    if (outputs_[i].index == kMissing) {
      const auto bytes = static_cast<size_t>(count_elements(shape)) * bytes_of(outputs_[i].array_type);
      outputs[i] = unread.emplace_back(new char[std::max<size_t>(bytes, 1)]).get();
      continue;
    }
    OrtValue* value = nullptr;
    const auto rank = static_cast<size_t>(shape.rank);
    require(api_.KernelContext_GetOutput(context, outputs_[i].index, shape.sizes, rank, &value));
    require(api_.GetTensorMutableData(value, &outputs[i]));
  }
  require(intact_run(session, inputs.data(), outputs.data(), &error), error);
}

}  // namespace intact::ort
