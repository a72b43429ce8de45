// Opens every file that it is given as a plan, through the C interface, and runs it where it opens: a damaged or
// deceitful plan ends in an error, never in a crash. With sanitizers it is the test of what strangers may do to
// the reader and the binder.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "intact.h"

namespace {

constexpr size_t kMostBytes = size_t{1} << 26;  // of one array: more is not tried

size_t bytes_of(const intact_shape& shape, intact_type type) {
  constexpr size_t kBytes[] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  size_t bytes = kBytes[type];
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.sizes[i] == 0) return 0;
    if (bytes > kMostBytes / static_cast<size_t>(shape.sizes[i])) return kMostBytes + 1;
    bytes *= static_cast<size_t>(shape.sizes[i]);
  }
  return bytes;
}

// Runs a plan with `free` for every size that is free.
intact_status run(intact_plan* plan, intact_session* session, int64_t free, intact_error* error) {
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
    arrays.emplace_back(bytes, static_cast<unsigned char>(7 * i + 1));
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
  }
  std::vector<void*> places;
  for (auto& array : arrays) places.push_back(array.empty() ? static_cast<void*>(&places) : array.data());
  std::vector<double> seconds(intact_step_count(session));
  return intact_profile(session, places.data(), places.data() + inputs, seconds.data(), seconds.size(), error);
}

}  // namespace

int main(int argc, char** argv) {
  size_t counts[INTACT_INTERNAL + 1] = {};
  for (int i = 1; i < argc; ++i) {
    FILE* const file = std::fopen(argv[i], "rb");
    if (file == nullptr) return 2;
    std::vector<unsigned char> bytes;
    unsigned char piece[4096];
    for (size_t n = 0; (n = std::fread(piece, 1, sizeof piece, file)) > 0;)
      bytes.insert(bytes.end(), piece, piece + n);
    std::fclose(file);
    intact_error error{};
    error.size = sizeof error;
    intact_options options{};
    options.size = sizeof options;
    options.threads = 1;
    intact_plan* plan = nullptr;
    intact_session* session = nullptr;
    intact_status status = intact_open_memory(bytes.data(), bytes.size(), &options, &plan, &error);
    if (status == INTACT_OK) status = intact_session_new(plan, &session, &error);
    for (int64_t free = 1; status == INTACT_OK && free <= 3; ++free)
      status = run(plan, session, free, &error);
    if (plan != nullptr && intact_selftest(plan, &error) == INTACT_INTERNAL) status = INTACT_INTERNAL;
    intact_session_free(session);
    intact_close(plan);
    ++counts[status];
    if (status == INTACT_INTERNAL) std::printf("%s: %s\n", argv[i], error.text);
  }
  for (size_t i = 0; i <= INTACT_INTERNAL; ++i) std::printf("status %zu: %zu\n", i, counts[i]);
  return counts[INTACT_INTERNAL] == 0 ? 0 : 1;
}
