#include "onnxruntime/context_node.h"

#include <cstring>
#include <new>
#include <string_view>

#include "onnxruntime/status.h"

namespace intact::ort {
namespace {

namespace fs = std::filesystem;

constexpr std::align_val_t kAlignment{64};

int64_t read_int(const Api& api, const OrtNode* node, const char* name, int64_t standard) {
  const OrtOpAttr* attribute = nullptr;
  if (OrtStatus* status = api.Node_GetAttributeByName(node, name, &attribute); status != nullptr) {
    api.ReleaseStatus(status);  // some versions have an error for attributes that are left out
    return standard;
  }
  if (attribute == nullptr) return standard;
  int64_t number = 0;
  size_t bytes = 0;
  require(api.ReadOpAttr(attribute, ORT_OP_ATTR_INT, &number, sizeof number, &bytes));
  return number;
}

AlignedBytes read_text(const Api& api, const OrtNode* node, const char* name) {
  AlignedBytes text;
  const OrtOpAttr* attribute = nullptr;
  if (OrtStatus* status = api.Node_GetAttributeByName(node, name, &attribute); status != nullptr) {
    api.ReleaseStatus(status);
    return text;
  }
  if (attribute == nullptr) return text;
  // The first call fails, and says how many bytes there are.
  char none = 0;
  OrtStatus* status = api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, &none, 0, &text.size);
  if (status != nullptr) api.ReleaseStatus(status);
  if (text.size == 0) return text;
  text.data.reset(::operator new(text.size, kAlignment));
  require(api.ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text.data.get(), text.size, &text.size));
  return text;
}

std::string_view view(const AlignedBytes& bytes) {
  return {static_cast<const char*>(bytes.data.get()), bytes.size};
}

Value describe(const Api& api, const OrtValueInfo* info) {
  Value value{{}, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED};
  if (info == nullptr) return value;
  const char* name = nullptr;
  require(api.GetValueInfoName(info, &name));
  value.name = name;
  const OrtTypeInfo* type = nullptr;
  require(api.GetValueInfoTypeInfo(info, &type));
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  require(api.CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor != nullptr) require(api.GetTensorElementType(tensor, &value.type));
  return value;
}

std::vector<Value> describe_all(const Api& api, const std::vector<const OrtValueInfo*>& infos) {
  std::vector<Value> values;
  for (const OrtValueInfo* info : infos) values.push_back(describe(api, info));
  return values;
}

fs::path model_folder(const Api& api, const OrtGraph* graph, const std::string& context_path) {
  const ORTCHAR_T* path = nullptr;
  require(api.Graph_GetModelPath(graph, &path));
  if (path != nullptr && *path != 0) return fs::path(path).parent_path();
  if (!context_path.empty()) return fs::path(context_path).parent_path();
  fail(ORT_INVALID_ARGUMENT,
       "the plan lies beside the model, and a model in memory has no folder: load the model by its path, or "
       "set the session's option ep.context_file_path to that path");
}

}  // namespace

void AlignedBytes::Free::operator()(void* data) const { ::operator delete(data, kAlignment); }

bool is_context_node(const Api& api, const OrtNode* node) {
  const char* text = nullptr;
  require(api.Node_GetOperatorType(node, &text));
  if (std::strcmp(text, "EPContext") != 0) return false;
  require(api.Node_GetDomain(node, &text));
  return std::strcmp(text, "com.microsoft") == 0 && view(read_text(api, node, "source")) == kProviderName;
}

std::vector<const OrtNode*> nodes_of(const Api& api, const OrtGraph* graph) {
  size_t count = 0;
  require(api.Graph_GetNumNodes(graph, &count));
  std::vector<const OrtNode*> nodes(count);
  require(api.Graph_GetNodes(graph, nodes.data(), count));
  return nodes;
}

std::vector<Value> inputs_of(const Api& api, const OrtNode* node) {
  size_t count = 0;
  require(api.Node_GetNumInputs(node, &count));
  std::vector<const OrtValueInfo*> infos(count);
  if (count > 0) require(api.Node_GetInputs(node, infos.data(), count));
  return describe_all(api, infos);
}

std::vector<Value> outputs_of(const Api& api, const OrtNode* node) {
  size_t count = 0;
  require(api.Node_GetNumOutputs(node, &count));
  std::vector<const OrtValueInfo*> infos(count);
  if (count > 0) require(api.Node_GetOutputs(node, infos.data(), count));
  return describe_all(api, infos);
}

PlanSource read_plan_source(const Api& api, const OrtGraph* graph, const OrtNode* node,
                            const std::string& context_path) {
  if (read_int(api, node, "main_context", 1) != 1)
    fail(ORT_NOT_IMPLEMENTED,
         "an EPContext node without a plan of its own (main_context=0): write the model by `intact build "
         "--ep-context`");
  PlanSource source{read_text(api, node, "ep_cache_context"), {}};
  if (source.bytes.size == 0)
    fail(ORT_INVALID_GRAPH, "an EPContext node with an empty ep_cache_context: want a plan");
  if (read_int(api, node, "embed_mode", 1) != 0) return source;
  const fs::path name(view(source.bytes));
  bool leaves = name.is_absolute() || name.has_root_path();
  for (const fs::path& folder : name) leaves = leaves || folder == "..";
  if (leaves)
    fail(ORT_INVALID_GRAPH, "the plan '" + name.string() +
                                "' does not lie below the folder of the model: want a relative path without "
                                "'..'");
  source.file = model_folder(api, graph, context_path) / name;
  source.bytes = {};
  return source;
}

}  // namespace intact::ort
