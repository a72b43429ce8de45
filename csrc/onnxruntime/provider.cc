// The plug-in execution provider for ONNX Runtime: runs EPContext nodes of `intact build --ep-context` on the
// C library. ONNX Runtime calls CreateEpFactories and ReleaseEpFactory.
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "intact.h"
#include "onnxruntime/context_node.h"
#include "onnxruntime/ort_api.h"
#include "onnxruntime/plan_node.h"
#include "onnxruntime/status.h"

#ifdef _WIN32
#define INTACT_ORT_EXPORT extern "C" __declspec(dllexport)
#else
#define INTACT_ORT_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace intact::ort {
namespace {

// ONNX Runtime keeps options of a provider under this prefix: "ep.", its name in small letters.
constexpr char kThreadsOption[] = "ep.intactexecutionprovider.threads";
constexpr char kContextPathOption[] = "ep.context_file_path";
constexpr int32_t kMostThreads = 1024;

// An entry of the session's options; empty where it is not set.
std::string read_option(const Api& api, const OrtSessionOptions* options, const char* key) {
  int is_set = 0;
  require(api.HasSessionConfigEntry(options, key, &is_set));
  if (is_set == 0) return {};
  size_t size = 0;
  require(api.GetSessionConfigEntry(options, key, nullptr, &size));
  std::string text(size, '\0');
  require(api.GetSessionConfigEntry(options, key, text.data(), &size));
  text.resize(std::strlen(text.c_str()));
  return text;
}

int32_t parse_threads(const std::string& text) {
  if (text.empty()) return 0;
  int32_t threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc{} || end != text.data() + text.size() || threads < 0 || threads > kMostThreads)
    fail(ORT_INVALID_ARGUMENT, "option 'threads': got '" + text + "', want 0 to 1024");
  return threads;
}

class Provider : public OrtEp {
 public:
  Provider(const Api& api, const OrtSessionOptions* options)
      : api_(api),
        threads_(read_option(api, options, kThreadsOption)),
        context_path_(read_option(api, options, kContextPathOption)) {
    GetName = [](const OrtEp*) noexcept { return kProviderName; };
    GetCapability = [](OrtEp* ep, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      const auto& provider = *static_cast<Provider*>(ep);
      return guarded(provider.api_, [&] { provider.claim(graph, support); });
    };
    Compile = [](OrtEp* ep, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                 OrtNodeComputeInfo** infos, OrtNode**) noexcept {
      const auto& provider = *static_cast<Provider*>(ep);
      return guarded(provider.api_, [&] {
        const int32_t threads = parse_threads(provider.threads_);
        for (size_t i = 0; i < count; ++i)
          infos[i] = new PlanNode(provider.api_, graphs[i], fused[i], threads, provider.context_path_);
      });
    };
    ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
      for (size_t i = 0; i < count; ++i) delete static_cast<PlanNode*>(infos[i]);
    };
  }

 private:
  void claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) const {
    for (const OrtNode* node : nodes_of(api_, graph))
      if (is_context_node(api_, node))
        require(api_.EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, nullptr));
  }

  const Api& api_;
  // As it was given: ONNX Runtime takes an error here for one of the provider, and goes on without it.
  const std::string threads_;
  const std::string context_path_;
};

// ONNX Runtime takes semantic versions alone, in which "0.3.0.dev0" is "0.3.0-dev0".
std::string semantic_version(std::string version) {
  if (const size_t dev = version.find(".dev"); dev != std::string::npos) version[dev] = '-';
  return version;
}

const std::string kVersion = semantic_version(intact_version());

class Factory : public OrtEpFactory {
 public:
  explicit Factory(const Api& api) : api_(api) {
    GetName = [](const OrtEpFactory*) noexcept { return kProviderName; };
    GetVendor = [](const OrtEpFactory*) noexcept { return "INTact"; };
    GetVendorId = [](const OrtEpFactory*) noexcept { return uint32_t{0}; };
    GetVersion = [](const OrtEpFactory*) noexcept { return kVersion.c_str(); };
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** transfer) noexcept -> OrtStatus* {
      *transfer = nullptr;  // tensors lie in the memory of the processor
      return nullptr;
    };
    IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                             OrtEpDevice** ep_devices, size_t most, size_t* made) noexcept {
      auto& factory = *static_cast<Factory*>(self);
      return guarded(factory.api_, [&] { *made = factory.list_devices(devices, count, ep_devices, most); });
    };
    CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                  const OrtSessionOptions* options, const OrtLogger*, OrtEp** ep) noexcept {
      const auto& factory = *static_cast<Factory*>(self);
      *ep = nullptr;
      return guarded(factory.api_, [&] { *ep = new Provider(factory.api_, options); });
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* ep) noexcept { delete static_cast<Provider*>(ep); };
  }

 private:
  // One device of the provider for each processor that ONNX Runtime knows; returns how many.
  size_t list_devices(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** ep_devices,
                      size_t most) {
    size_t made = 0;
    for (size_t i = 0; i < count && made < most; ++i) {
      if (api_.HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
      require(api_.CreateEpDevice(this, devices[i], nullptr, nullptr, &ep_devices[made]));
      ++made;
    }
    return made;
  }

  const Api api_;
};

// The status of a library that is too old for plug-in providers.
OrtStatus* refuse_version(const OrtApiBase& base) {
  const std::string text = std::string("INTact's execution provider wants ONNX Runtime 1.23 or later, got ") +
                           base.GetVersionString() + ": update onnxruntime";
  return create_status(base.GetApi(1), ORT_NOT_IMPLEMENTED, text.c_str());
}

}  // namespace
}  // namespace intact::ort

// Called once, when the library is registered. Older versions pass one argument less: of those, only the
// first two are read.
INTACT_ORT_EXPORT intact::ort::OrtStatus* CreateEpFactories(
    const char*, const intact::ort::OrtApiBase* base, const intact::ort::OrtLogger*,
    intact::ort::OrtEpFactory** factories, size_t most, size_t* made) {
  using namespace intact::ort;
  const OrtApi* table = base->GetApi(kApiVersion);
  if (table == nullptr) return refuse_version(*base);
  const Api api(table);
  return guarded(api, [&] {
    if (most < 1) fail(ORT_INVALID_ARGUMENT, "there is no room for a factory");
    factories[0] = new Factory(api);
    *made = 1;
  });
}

INTACT_ORT_EXPORT intact::ort::OrtStatus* ReleaseEpFactory(intact::ort::OrtEpFactory* factory) {
  delete static_cast<intact::ort::Factory*>(factory);
  return nullptr;
}
