// Runs a model of one input and one output of float32 through INTact's execution provider, on four threads
// that share a session, as a program in C does: ONNX Runtime's library is opened by its path.
//   run_ep_context LIBONNXRUNTIME PROVIDER MODEL INTRA_OP_THREADS INPUT OUTPUT SIZE...
// INPUT has the float32 elements of the input, whose sizes follow; the output's go to OUTPUT.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "onnxruntime/ort_api.h"

namespace intact::ort {

struct OrtEnv;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;

enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };
enum OrtAllocatorType { OrtDeviceAllocator = 0 };
enum OrtMemType { OrtMemTypeDefault = 0 };

// As INTACT_ORT_API: position, version, result, name, parameters.
#define INTACT_ORT_PROGRAM_API(FUNCTION) \
  FUNCTION(2, 1, const char*, GetErrorMessage, (const OrtStatus*)) \
  FUNCTION(3, 1, OrtStatus*, CreateEnv, (OrtLoggingLevel, const char*, OrtEnv**)) \
  FUNCTION(7, 1, OrtStatus*, CreateSession, \
           (const OrtEnv*, const ORTCHAR_T*, const OrtSessionOptions*, OrtSession**)) \
  FUNCTION(9, 1, OrtStatus*, Run, \
           (OrtSession*, const OrtRunOptions*, const char* const*, const OrtValue* const*, size_t, \
            const char* const*, size_t, OrtValue**)) \
  FUNCTION(10, 1, OrtStatus*, CreateSessionOptions, (OrtSessionOptions**)) \
  FUNCTION(24, 1, OrtStatus*, SetIntraOpNumThreads, (OrtSessionOptions*, int)) \
  FUNCTION(49, 1, OrtStatus*, CreateTensorWithDataAsOrtValue, \
           (const OrtMemoryInfo*, void*, size_t, const int64_t*, size_t, ONNXTensorElementDataType, \
            OrtValue**)) \
  FUNCTION(64, 1, OrtStatus*, GetTensorShapeElementCount, (const OrtTensorTypeAndShapeInfo*, size_t*)) \
  FUNCTION(69, 1, OrtStatus*, CreateCpuMemoryInfo, (OrtAllocatorType, OrtMemType, OrtMemoryInfo**)) \
  FUNCTION(92, 1, void, ReleaseEnv, (OrtEnv*)) \
  FUNCTION(94, 1, void, ReleaseMemoryInfo, (OrtMemoryInfo*)) \
  FUNCTION(95, 1, void, ReleaseSession, (OrtSession*)) \
  FUNCTION(96, 1, void, ReleaseValue, (OrtValue*)) \
  FUNCTION(100, 1, void, ReleaseSessionOptions, (OrtSessionOptions*)) \
  FUNCTION(301, 22, OrtStatus*, RegisterExecutionProviderLibrary, \
           (OrtEnv*, const char*, const ORTCHAR_T*)) \
  FUNCTION(302, 22, OrtStatus*, UnregisterExecutionProviderLibrary, (OrtEnv*, const char*)) \
  FUNCTION(303, 22, OrtStatus*, GetEpDevices, (const OrtEnv*, const OrtEpDevice* const**, size_t*)) \
  FUNCTION(304, 22, OrtStatus*, SessionOptionsAppendExecutionProvider_V2, \
           (OrtSessionOptions*, OrtEnv*, const OrtEpDevice* const*, size_t, const char* const*, \
            const char* const*, size_t)) \
  FUNCTION(312, 22, const char*, EpDevice_EpName, (const OrtEpDevice*))

struct ProgramApi : Api {
  explicit ProgramApi(const OrtApi* table) : Api(table) {
    const auto* functions = reinterpret_cast<void* const*>(table);
#define INTACT_ORT_READ(position, version, result, name, parameters) \
  name = reinterpret_cast<decltype(name)>(functions[position]);
    INTACT_ORT_PROGRAM_API(INTACT_ORT_READ)
#undef INTACT_ORT_READ
  }
#define INTACT_ORT_MEMBER(position, version, result, name, parameters) result (*name) parameters;
  INTACT_ORT_PROGRAM_API(INTACT_ORT_MEMBER)
#undef INTACT_ORT_MEMBER

  void require(OrtStatus* status) const {
    if (status == nullptr) return;
    std::printf("%s\n", GetErrorMessage(status));
    std::exit(1);
  }
};

namespace {

const OrtApiBase* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    std::exit(1);
  }
  using GetApiBase = const OrtApiBase* (*)();
  return reinterpret_cast<GetApiBase>(dlsym(library, "OrtGetApiBase"))();
}

std::vector<const OrtEpDevice*> find_devices(const ProgramApi& api, const OrtEnv* env) {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  api.require(api.GetEpDevices(env, &devices, &count));
  std::vector<const OrtEpDevice*> ours;
  for (size_t i = 0; i < count; ++i)
    if (std::strcmp(api.EpDevice_EpName(devices[i]), "INTactExecutionProvider") == 0)
      ours.push_back(devices[i]);
  return ours;
}

std::vector<float> run(const ProgramApi& api, OrtSession* session, std::vector<float> x,
                       const std::vector<int64_t>& sizes) {
  OrtMemoryInfo* memory = nullptr;
  api.require(api.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  OrtValue *input = nullptr, *output = nullptr;
  api.require(api.CreateTensorWithDataAsOrtValue(memory, x.data(), x.size() * sizeof(float), sizes.data(),
                                                 sizes.size(), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
  const char* const input_name = "x";
  const char* const output_name = "y";
  api.require(api.Run(session, nullptr, &input_name, &input, 1, &output_name, 1, &output));
  OrtTensorTypeAndShapeInfo* info = nullptr;
  api.require(api.GetTensorTypeAndShape(output, &info));
  size_t count = 0;
  api.require(api.GetTensorShapeElementCount(info, &count));
  api.ReleaseTensorTypeAndShapeInfo(info);
  void* data = nullptr;
  api.require(api.GetTensorMutableData(output, &data));
  std::vector<float> y(static_cast<const float*>(data), static_cast<const float*>(data) + count);
  api.ReleaseValue(output);
  api.ReleaseValue(input);
  api.ReleaseMemoryInfo(memory);
  return y;
}

std::vector<float> read_floats(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

int run_threads(const ProgramApi& api, OrtSession* session, char** argv, int argc) {
  std::vector<int64_t> sizes;
  for (int i = 7; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  const std::vector<float> x = read_floats(argv[5]);
  std::vector<std::vector<float>> outputs(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& y : outputs)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) y = run(api, session, x, sizes);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& y : outputs)
    if (y != outputs[0]) return 2;
  std::ofstream file(argv[6], std::ios::binary);
  file.write(reinterpret_cast<const char*>(outputs[0].data()),
             static_cast<std::streamsize>(outputs[0].size() * sizeof(float)));
  return 0;
}

}  // namespace
}  // namespace intact::ort

int main(int argc, char** argv) {
  using namespace intact::ort;
  if (argc < 8) return 3;
  const OrtApiBase* base = open_library(argv[1]);
  const ProgramApi api(base->GetApi(kApiVersion));
  OrtEnv* env = nullptr;
  api.require(api.CreateEnv(ORT_LOGGING_LEVEL_WARNING, "run_ep_context", &env));
  api.require(api.RegisterExecutionProviderLibrary(env, "intact", argv[2]));
  const std::vector<const OrtEpDevice*> devices = find_devices(api, env);
  if (devices.empty()) return 4;
  OrtSessionOptions* options = nullptr;
  api.require(api.CreateSessionOptions(&options));
  api.require(api.SetIntraOpNumThreads(options, std::atoi(argv[4])));
  api.require(api.SessionOptionsAppendExecutionProvider_V2(options, env, devices.data(), devices.size(),
                                                           nullptr, nullptr, 0));
  OrtSession* session = nullptr;
  api.require(api.CreateSession(env, argv[3], options, &session));
  const int status = run_threads(api, session, argv, argc);
  api.ReleaseSession(session);
  api.ReleaseSessionOptions(options);
  api.require(api.UnregisterExecutionProviderLibrary(env, "intact"));
  api.ReleaseEnv(env);
  return status;
}
