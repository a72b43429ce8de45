// An EPContext node of INTact's: where its plan is, and which ports its inputs and outputs are.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "onnxruntime/ort_api.h"

namespace intact::ort {

// Name of the execution provider, and `source` of its EPContext nodes.
inline constexpr char kProviderName[] = "INTactExecutionProvider";

// Bytes at a multiple of 64, so that the C library reads a plan where it lies.
struct AlignedBytes {
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data;
  size_t size = 0;
};

// A plan: its bytes, or the file that has it.
struct PlanSource {
  AlignedBytes bytes;
  std::filesystem::path file;  // empty: the bytes
};

struct Value {
  std::string name;
  ONNXTensorElementDataType type;
};

// Whether a node is an EPContext node that this provider runs.
bool is_context_node(const Api& api, const OrtNode* node);
// The nodes of a graph.
std::vector<const OrtNode*> nodes_of(const Api& api, const OrtGraph* graph);
// Name and element type of a node's inputs or outputs; names are empty where an optional one is left out.
std::vector<Value> inputs_of(const Api& api, const OrtNode* node);
std::vector<Value> outputs_of(const Api& api, const OrtNode* node);
// The plan of an EPContext node. `context_path` stands for the model's own path where ONNX Runtime has none,
// as for a model in memory. Throws Failure for paths that leave the folder of the model.
PlanSource read_plan_source(const Api& api, const OrtGraph* graph, const OrtNode* node,
                            const std::string& context_path);

}  // namespace intact::ort
