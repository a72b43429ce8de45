/* Counts what the library allocates in a run: the functions here stand in front of those of the C library.
 *
 *   allocations model.plan runs     prints how many allocations `runs` runs made behind the first prepare
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intact.h"

static long count;
static void* (*next_malloc)(size_t);
static void* (*next_aligned)(size_t, size_t);

void* malloc(size_t bytes) {
  __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  if (next_malloc == NULL) *(void**)&next_malloc = dlsym(RTLD_NEXT, "malloc");
  return next_malloc(bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
  if (next_aligned == NULL) *(void**)&next_aligned = dlsym(RTLD_NEXT, "aligned_alloc");
  return next_aligned(alignment, bytes);
}

static size_t bytes_of(const intact_shape* shape) {
  size_t bytes = 8;
  for (int i = 0; i < shape->rank; ++i) bytes *= (size_t)shape->sizes[i];
  return bytes + 1;
}

int main(int argc, char** argv) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  intact_options options = {sizeof options, 2, NULL};
  intact_plan* plan = NULL;
  intact_session* session = NULL;
  intact_shape shapes[8];
  void* arrays[16];
  if (argc != 3 || intact_open(argv[1], &options, &plan, &error) != INTACT_OK) return 2;
  const size_t inputs = intact_input_count(plan), outputs = intact_output_count(plan);
  if (inputs > 8 || outputs > 8 || intact_session_new(plan, &session, &error) != INTACT_OK) return 2;
  for (size_t i = 0; i < inputs; ++i) {
    intact_port port = {sizeof port, NULL, INTACT_UINT8, 0, {0}, {0}, 0, 0, 0};
    if (intact_input(plan, i, &port, &error) != INTACT_OK) return 2;
    shapes[i].rank = port.rank;
    for (int axis = 0; axis < port.rank; ++axis) shapes[i].sizes[axis] = port.shape[axis] < 0 ? 2 : port.shape[axis];
    arrays[i] = calloc(1, bytes_of(&shapes[i]));
  }
  if (intact_prepare(session, shapes, &error) != INTACT_OK) return 2;
  for (size_t i = 0; i < outputs; ++i) {
    intact_shape made;
    if (intact_output_shape(session, i, &made, &error) != INTACT_OK) return 2;
    arrays[8 + i] = calloc(1, bytes_of(&made));
  }
  const long before = count;
  for (long run = atol(argv[2]); run > 0; --run) {
    if (intact_prepare(session, shapes, &error) != INTACT_OK) return 3;
    if (intact_run(session, (const void* const*)arrays, arrays + 8, &error) != INTACT_OK) return 3;
  }
  printf("%ld\n", count - before);
  intact_session_free(session);
  intact_close(plan);
  return before > 0 ? 0 : 4;
}
