// An EPContext node that runs: a plan, and sessions of the C library for the runs that are going on at once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "intact.h"
#include "onnxruntime/context_node.h"
#include "onnxruntime/ort_api.h"

namespace intact::ort {

class PlanNode : public OrtNodeComputeInfo {
 public:
  // Opens the plan of an EPContext node. `fused` is the node that ONNX Runtime made of it: values come in its
  // order. `threads`: pieces of a step at a time, on the threads of ONNX Runtime's session; 0: one for each
  // processor.
  PlanNode(const Api& api, const OrtGraph* graph, const OrtNode* fused, int32_t threads,
           const std::string& context_path);
  PlanNode(const PlanNode&) = delete;
  PlanNode& operator=(const PlanNode&) = delete;

 private:
  struct ClosePlan {
    void operator()(intact_plan* plan) const { intact_close(plan); }
  };
  struct FreeSession {
    void operator()(intact_session* session) const { intact_session_free(session); }
  };
  using Session = std::unique_ptr<intact_session, FreeSession>;
  // An input or output of the plan.
  struct Port {
    size_t index;  // among the fused node's; kMissing: nothing reads this output
    ONNXTensorElementDataType type;
    intact_type array_type;
    bool is_converted;  // floats where the plan has codes
    std::string name;
  };

  void open(const PlanSource& source, int32_t threads);
  void map_ports(const OrtNode* node, const OrtNode* fused);
  Port map_port(const Value& value, const std::vector<Value>& fused, const intact_port& port) const;
  Session make_session() const;
  // Binds for the smallest sizes, which reads and compares the weights: a damaged plan fails when it is
  // opened, and the first run need not wait. A plan that does not take these sizes fails in its first run.
  void read_weights(intact_session* session) const;
  void run(OrtKernelContext* context);
  void run_session(intact_session* session, OrtKernelContext* context) const;
  const void* read_input(const OrtKernelContext* context, const Port& port, intact_shape* shape) const;

  const Api& api_;
  AlignedBytes bytes_;
  std::unique_ptr<intact_plan, ClosePlan> plan_;
  std::vector<Port> inputs_, outputs_;
  std::mutex mutex_;
  std::vector<Session> idle_;  // guarded by mutex_
};

}  // namespace intact::ort
