// Facts of ONNX Runtime's C interface that a plug-in execution provider needs: which functions of its tables
// are called, by position, and the layouts of the tables that a plug-in fills in. The interface only ever
// appends, so positions and layouts hold for every later version. `python tests/ort_header_facts.py FOLDER`
// compares this file with ONNX Runtime's own headers.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef _WIN32
#define INTACT_ORT_CALL __stdcall
#define ORTCHAR_T wchar_t
#else
#define INTACT_ORT_CALL
#define ORTCHAR_T char
#endif

namespace intact::ort {

// The version of the interface that all of this is there in: that of ONNX Runtime 1.23.
constexpr uint32_t kApiVersion = 23;

struct OrtApi;
struct OrtDataTransferImpl;
struct OrtEpApi;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelContext;
struct OrtKeyValuePairs;
struct OrtLogger;
struct OrtNode;
struct OrtNodeComputeContext;
struct OrtOpAttr;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;
struct OrtValueInfo;

enum OrtErrorCode {
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NO_SUCHFILE = 3,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_INVALID_GRAPH = 10,
  ORT_EP_FAIL = 11
};

enum OrtOpAttrType { ORT_OP_ATTR_INT = 1, ORT_OP_ATTR_STRING = 5 };

enum OrtHardwareDeviceType { OrtHardwareDeviceType_CPU = 0 };

enum ONNXTensorElementDataType {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13
};

struct OrtApiBase {
  const OrtApi*(INTACT_ORT_CALL* GetApi)(uint32_t version);  // null: the library is older
  const char*(INTACT_ORT_CALL* GetVersionString)();
};

// The functions that are called: position in the table, version that brought it, result, name, parameters.
// A result of OrtStatus* that is not null is an error, which its receiver releases.
#define INTACT_ORT_API(FUNCTION) \
  FUNCTION(0, 1, OrtStatus*, CreateStatus, (OrtErrorCode, const char*)) \
  FUNCTION(60, 1, OrtStatus*, GetTensorElementType, \
           (const OrtTensorTypeAndShapeInfo*, ONNXTensorElementDataType*)) \
  FUNCTION(61, 1, OrtStatus*, GetDimensionsCount, (const OrtTensorTypeAndShapeInfo*, size_t*)) \
  FUNCTION(62, 1, OrtStatus*, GetDimensions, (const OrtTensorTypeAndShapeInfo*, int64_t*, size_t)) \
  FUNCTION(65, 1, OrtStatus*, GetTensorTypeAndShape, (const OrtValue*, OrtTensorTypeAndShapeInfo**)) \
  FUNCTION(55, 1, OrtStatus*, CastTypeInfoToTensorInfo, \
           (const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**)) \
  FUNCTION(51, 1, OrtStatus*, GetTensorMutableData, (OrtValue*, void**)) \
  FUNCTION(88, 1, OrtStatus*, KernelContext_GetInputCount, (const OrtKernelContext*, size_t*)) \
  FUNCTION(90, 1, OrtStatus*, KernelContext_GetInput, (const OrtKernelContext*, size_t, const OrtValue**)) \
  FUNCTION(91, 1, OrtStatus*, KernelContext_GetOutput, \
           (OrtKernelContext*, size_t, const int64_t*, size_t, OrtValue**)) \
  FUNCTION(93, 1, void, ReleaseStatus, (OrtStatus*)) \
  FUNCTION(99, 1, void, ReleaseTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo*)) \
  FUNCTION(237, 14, OrtStatus*, HasSessionConfigEntry, (const OrtSessionOptions*, const char*, int*)) \
  FUNCTION(238, 14, OrtStatus*, GetSessionConfigEntry, \
           (const OrtSessionOptions*, const char*, char*, size_t*)) \
  FUNCTION(272, 17, OrtStatus*, ReadOpAttr, (const OrtOpAttr*, OrtOpAttrType, void*, size_t, size_t*)) \
  FUNCTION(274, 17, OrtStatus*, KernelContext_ParallelFor, \
           (const OrtKernelContext*, void (*)(void*, size_t), size_t, size_t, void*)) \
  FUNCTION(289, 22, OrtStatus*, GetValueInfoName, (const OrtValueInfo*, const char**)) \
  FUNCTION(290, 22, OrtStatus*, GetValueInfoTypeInfo, (const OrtValueInfo*, const OrtTypeInfo**)) \
  FUNCTION(307, 22, OrtHardwareDeviceType, HardwareDevice_Type, (const OrtHardwareDevice*)) \
  FUNCTION(317, 22, const OrtEpApi*, GetEpApi, (void)) \
  FUNCTION(334, 23, OrtStatus*, Graph_GetModelPath, (const OrtGraph*, const ORTCHAR_T**)) \
  FUNCTION(344, 23, OrtStatus*, Graph_GetNumNodes, (const OrtGraph*, size_t*)) \
  FUNCTION(345, 23, OrtStatus*, Graph_GetNodes, (const OrtGraph*, const OrtNode**, size_t)) \
  FUNCTION(350, 23, OrtStatus*, Node_GetOperatorType, (const OrtNode*, const char**)) \
  FUNCTION(351, 23, OrtStatus*, Node_GetDomain, (const OrtNode*, const char**)) \
  FUNCTION(353, 23, OrtStatus*, Node_GetNumInputs, (const OrtNode*, size_t*)) \
  FUNCTION(354, 23, OrtStatus*, Node_GetInputs, (const OrtNode*, const OrtValueInfo**, size_t)) \
  FUNCTION(355, 23, OrtStatus*, Node_GetNumOutputs, (const OrtNode*, size_t*)) \
  FUNCTION(356, 23, OrtStatus*, Node_GetOutputs, (const OrtNode*, const OrtValueInfo**, size_t)) \
  FUNCTION(361, 23, OrtStatus*, Node_GetAttributeByName, (const OrtNode*, const char*, const OrtOpAttr**)) \
  FUNCTION(378, 23, OrtStatus*, GetTensorData, (const OrtValue*, const void**))

struct OrtEp;
struct OrtEpFactory;

struct OrtNodeFusionOptions {
  uint32_t ort_version_supported;
  bool drop_constant_initializers;
};

#define INTACT_ORT_EP_API(FUNCTION) \
  FUNCTION(0, 22, OrtStatus*, CreateEpDevice, \
           (OrtEpFactory*, const OrtHardwareDevice*, const OrtKeyValuePairs*, const OrtKeyValuePairs*, \
            OrtEpDevice**)) \
  FUNCTION(2, 23, OrtStatus*, EpGraphSupportInfo_AddNodesToFuse, \
           (OrtEpGraphSupportInfo*, const OrtNode* const*, size_t, const OrtNodeFusionOptions*))

// The functions of both tables, by name.
struct Api {
  // The table of version kApiVersion or later.
  explicit Api(const OrtApi* table) {
    const auto* functions = reinterpret_cast<void* const*>(table);
#define INTACT_ORT_READ(position, version, result, name, parameters) \
  name = reinterpret_cast<decltype(name)>(functions[position]);
    INTACT_ORT_API(INTACT_ORT_READ)
    functions = reinterpret_cast<void* const*>(GetEpApi());
    INTACT_ORT_EP_API(INTACT_ORT_READ)
#undef INTACT_ORT_READ
  }

#define INTACT_ORT_MEMBER(position, version, result, name, parameters) \
  result(INTACT_ORT_CALL* name) parameters;
  INTACT_ORT_API(INTACT_ORT_MEMBER)
  INTACT_ORT_EP_API(INTACT_ORT_MEMBER)
#undef INTACT_ORT_MEMBER
};

// Makes a status by the table of any version, also of one that lacks the other functions.
inline OrtStatus* create_status(const OrtApi* table, OrtErrorCode code, const char* text) {
  return reinterpret_cast<decltype(Api::CreateStatus)>(reinterpret_cast<void* const*>(table)[0])(code, text);
}

// Tables that a plug-in fills in, as they are in version kApiVersion. Null: what ONNX Runtime does by itself.
#define INTACT_ORT_NODE_COMPUTE_INFO(FIELD) \
  FIELD(OrtStatus*, CreateState, (OrtNodeComputeInfo*, OrtNodeComputeContext*, void**)) \
  FIELD(OrtStatus*, Compute, (OrtNodeComputeInfo*, void*, OrtKernelContext*)) \
  FIELD(void, ReleaseState, (OrtNodeComputeInfo*, void*))

#define INTACT_ORT_EP(FIELD) \
  FIELD(const char*, GetName, (const OrtEp*)) \
  FIELD(OrtStatus*, GetCapability, (OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*)) \
  FIELD(OrtStatus*, Compile, \
        (OrtEp*, const OrtGraph**, const OrtNode**, size_t, OrtNodeComputeInfo**, OrtNode**)) \
  FIELD(void, ReleaseNodeComputeInfos, (OrtEp*, OrtNodeComputeInfo**, size_t)) \
  FIELD(void, GetPreferredDataLayout, ()) \
  FIELD(void, ShouldConvertDataLayoutForOp, ()) \
  FIELD(void, SetDynamicOptions, ()) \
  FIELD(void, OnRunStart, ()) \
  FIELD(void, OnRunEnd, ()) \
  FIELD(void, CreateAllocator, ()) \
  FIELD(void, CreateSyncStreamForDevice, ()) \
  FIELD(void, GetCompiledModelCompatibilityInfo, ())

#define INTACT_ORT_EP_FACTORY(FIELD) \
  FIELD(const char*, GetName, (const OrtEpFactory*)) \
  FIELD(const char*, GetVendor, (const OrtEpFactory*)) \
  FIELD(OrtStatus*, GetSupportedDevices, \
        (OrtEpFactory*, const OrtHardwareDevice* const*, size_t, OrtEpDevice**, size_t, size_t*)) \
  FIELD(OrtStatus*, CreateEp, \
        (OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t, \
         const OrtSessionOptions*, const OrtLogger*, OrtEp**)) \
  FIELD(void, ReleaseEp, (OrtEpFactory*, OrtEp*)) \
  FIELD(uint32_t, GetVendorId, (const OrtEpFactory*)) \
  FIELD(const char*, GetVersion, (const OrtEpFactory*)) \
  FIELD(void, ValidateCompiledModelCompatibilityInfo, ()) \
  FIELD(void, CreateAllocator, ()) \
  FIELD(void, ReleaseAllocator, ()) \
  FIELD(OrtStatus*, CreateDataTransfer, (OrtEpFactory*, OrtDataTransferImpl**)) \
  FIELD(bool, IsStreamAware, (const OrtEpFactory*)) \
  FIELD(void, CreateSyncStreamForDevice, ())

#define INTACT_ORT_FIELD(result, name, parameters) result(INTACT_ORT_CALL* name) parameters = nullptr;

struct OrtNodeComputeInfo {
  uint32_t ort_version_supported = kApiVersion;
  INTACT_ORT_NODE_COMPUTE_INFO(INTACT_ORT_FIELD)
};

struct OrtEp {
  uint32_t ort_version_supported = kApiVersion;
  INTACT_ORT_EP(INTACT_ORT_FIELD)
};

struct OrtEpFactory {
  uint32_t ort_version_supported = kApiVersion;
  INTACT_ORT_EP_FACTORY(INTACT_ORT_FIELD)
};

#undef INTACT_ORT_FIELD

}  // namespace intact::ort
