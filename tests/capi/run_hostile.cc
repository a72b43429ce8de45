#include "run_hostile.h"

#include <vector>

namespace {

constexpr size_t kMostBytes = size_t{1} << 26;  // of one array: more is not tried

constexpr size_t kBytes[] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8};  // of the elements of an intact_type

size_t bytes_of(const intact_shape& shape, intact_type type) {
  size_t bytes = kBytes[type];
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.sizes[i] == 0) return 0;
    if (bytes > kMostBytes / static_cast<size_t>(shape.sizes[i])) return kMostBytes + 1;
    bytes *= static_cast<size_t>(shape.sizes[i]);
  }
  return bytes;
}

// Strides of an array without gaps whose first axis is the fastest: none of it lies as plans have it.
std::vector<int64_t> turned(const intact_shape& shape, intact_type type) {
  std::vector<int64_t> strides;
  auto stride = static_cast<int64_t>(kBytes[type]);
  for (int axis = 0; axis < shape.rank; ++axis) {
    strides.push_back(stride);
    stride *= shape.sizes[axis] > 0 ? shape.sizes[axis] : 1;
  }
  return strides;
}

// Runs a plan with `free` for every size that is free. `is_turned`: arrays are.
intact_status run(intact_plan* plan, intact_session* session, int64_t free, bool is_turned,
                  intact_error* error) {
  std::vector<intact_shape> shapes(intact_input_count(plan));
  std::vector<std::vector<unsigned char>> arrays;
  for (size_t i = 0; i < shapes.size(); ++i) {
    intact_port port{};
    port.size = sizeof port;
    if (intact_input(plan, i, &port, error) != INTACT_OK) return error->status;
    shapes[i].rank = port.rank;
    for (int axis = 0; axis < port.rank; ++axis)
      shapes[i].sizes[axis] = port.shape[axis] < 0 ? free : port.shape[axis];
    const size_t bytes = bytes_of(shapes[i], port.type);
    if (bytes > kMostBytes) return INTACT_OK;
    arrays.emplace_back(bytes,
                        static_cast<unsigned char>(free == 2 ? 0 : 7 * i + 1));  // 0: an index that is there
    if (!is_turned) continue;
    const auto strides = turned(shapes[i], port.type);
    const auto status = intact_set_input_strides(session, i, strides.data(), strides.size(), error);
    if (status != INTACT_OK) return status;
  }
  if (const auto status = intact_prepare(session, shapes.data(), error); status != INTACT_OK) return status;
  const size_t inputs = arrays.size();
  for (size_t i = 0; i < intact_output_count(plan); ++i) {
    intact_shape shape{};
    intact_port port{};
    port.size = sizeof port;
    if (intact_output(plan, i, &port, error) != INTACT_OK) return error->status;
    if (const auto status = intact_output_shape(session, i, &shape, error); status != INTACT_OK)
      return status;
    const size_t bytes = bytes_of(shape, port.type);
    if (bytes > kMostBytes || intact_workspace_bytes(session) > kMostBytes) return INTACT_OK;
    arrays.emplace_back(bytes);
    if (!is_turned) continue;
    const auto strides = turned(shape, port.type);
    auto status = intact_set_output_strides(session, i, strides.data(), strides.size(), error);
    if (status == INTACT_OK) status = intact_prepare(session, shapes.data(), error);
    if (status != INTACT_OK) return status;
  }
  std::vector<void*> places;
  for (auto& array : arrays) places.push_back(array.empty() ? static_cast<void*>(&places) : array.data());
  std::vector<double> seconds(intact_step_count(session));
  return intact_profile(session, places.data(), places.data() + inputs, seconds.data(), seconds.size(),
                        error);
}

}  // namespace

HostileResult run_hostile(const unsigned char* data, size_t bytes) {
  intact_error error{};
  error.size = sizeof error;
  intact_options options{};
  options.size = sizeof options;
  options.threads = 1;
  intact_plan* plan = nullptr;
  intact_session* session = nullptr;
  intact_status status = intact_open_memory(data, bytes, &options, &plan, &error);
  if (status == INTACT_OK) status = intact_session_new(plan, &session, &error);
  for (int64_t free = 1; status == INTACT_OK && free <= 3; ++free) {
    status = run(plan, session, free, free == 3, &error);
  }
  if (plan != nullptr && intact_selftest(plan, &error) == INTACT_INTERNAL) status = INTACT_INTERNAL;
  intact_session_free(session);
  intact_close(plan);
  return {status, error.text};
}
