/* Counts what the library allocates: the functions here stand in front of those of the C library (glibc).
 *
 *   allocations model.plan runs threads opens [hosted]
 *
 * Runs the plan `runs` times on `threads` threads, each with a session of its own and inputs of its own, and prints
 * three numbers: the allocations behind the last prepare, the runs whose outputs are not those of the thread's
 * first one, and the calls that failed. Then opens, runs and closes the plan `opens` times, and prints the blocks
 * and the kilobytes of resident memory by which the last half of these left the process larger.
 * "hosted": the first runs are in pieces that this program calls, in place of the library's threads.
 * Exit status 2: the plan is not for this program, such as one whose free sizes cannot all be 2.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "intact.h"

enum { MOST_PORTS = 8, MOST_THREADS = 64 };

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static long allocations, blocks; /* made so far, and those of them that are not freed */

static void* counted(void* made) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  if (made != NULL) __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
  return made;
}

void* malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void* memalign(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
int posix_memalign(void** place, size_t alignment, size_t bytes) {
  void* const made = counted(__libc_memalign(alignment, bytes));
  if (made == NULL) return ENOMEM;
  *place = made;
  return 0;
}
void free(void* block) {
  if (block != NULL) __atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
  __libc_free(block);
}
void* realloc(void* block, size_t bytes) {
  if (block == NULL) return malloc(bytes);
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_realloc(block, bytes);
}

/* A session that is prepared for sizes of 2 where they are free, and its arrays. */
typedef struct {
  intact_session* session;
  intact_shape shapes[MOST_PORTS];
  void* inputs[MOST_PORTS];
  void* outputs[MOST_PORTS];
  void* first[MOST_PORTS]; /* outputs of the first run */
  size_t bytes[MOST_PORTS];
  size_t input_count, output_count;
} ready;

static size_t bytes_of(const intact_shape* shape, intact_type type) {
  static const size_t of_type[] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  size_t bytes = of_type[type];
  for (int i = 0; i < shape->rank; ++i) bytes *= (size_t)shape->sizes[i];
  return bytes;
}

/* Floats and codes that differ between threads; zeros for all that may be an index. */
static void* input_array(const intact_shape* shape, intact_type type, long number) {
  const size_t bytes = bytes_of(shape, type);
  unsigned char* const array = calloc(1, bytes + 1);
  if (array == NULL) exit(2);
  for (size_t i = 0; type == INTACT_FLOAT32 && i < bytes / 4; ++i) {
    const float value = (float)((long)(i * 7 % 31) - 15 + number) / 8;
    memcpy(array + 4 * i, &value, 4);
  }
  for (size_t i = 0; type <= INTACT_INT8 && i < bytes; ++i) array[i] = (unsigned char)(i * 5 + (size_t)number);
  return array;
}

static void require(int holds, int status) {
  if (!holds) exit(status);
}

static void prepare(ready* r, intact_plan* plan, long number) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  r->input_count = intact_input_count(plan);
  r->output_count = intact_output_count(plan);
  require(r->input_count <= MOST_PORTS && r->output_count <= MOST_PORTS, 2);
  require(intact_session_new(plan, &r->session, &error) == INTACT_OK, 3);
  for (size_t i = 0; i < r->input_count; ++i) {
    intact_port port = {sizeof port, NULL, INTACT_UINT8, 0, {0}, {0}, 0, 0, 0};
    require(intact_input(plan, i, &port, &error) == INTACT_OK, 3);
    intact_shape* const shape = &r->shapes[i];
    shape->rank = port.rank;
    for (int axis = 0; axis < port.rank; ++axis) shape->sizes[axis] = port.shape[axis] < 0 ? 2 : port.shape[axis];
    r->inputs[i] = input_array(shape, port.type, number);
  }
  require(intact_prepare(r->session, r->shapes, &error) == INTACT_OK, 2);
  for (size_t i = 0; i < r->output_count; ++i) {
    intact_port port = {sizeof port, NULL, INTACT_UINT8, 0, {0}, {0}, 0, 0, 0};
    intact_shape made;
    require(intact_output(plan, i, &port, &error) == INTACT_OK, 3);
    require(intact_output_shape(r->session, i, &made, &error) == INTACT_OK, 3);
    r->bytes[i] = bytes_of(&made, port.type);
    r->outputs[i] = calloc(1, r->bytes[i] + 1);
    r->first[i] = calloc(1, r->bytes[i] + 1);
    require(r->outputs[i] != NULL && r->first[i] != NULL, 3);
  }
  require(intact_run(r->session, (const void* const*)r->inputs, r->first, &error) == INTACT_OK, 2);
}

static void release(ready* r) {
  for (size_t i = 0; i < r->input_count; ++i) free(r->inputs[i]);
  for (size_t i = 0; i < r->output_count; ++i) {
    free(r->outputs[i]);
    free(r->first[i]);
  }
  intact_session_free(r->session);
}

typedef struct {
  ready ready;
  long runs, different, failed;
  pthread_barrier_t* start;
} worker;

static void* run(void* argument) {
  worker* const w = argument;
  intact_error error = {sizeof error, INTACT_OK, ""};
  pthread_barrier_wait(w->start);
  for (long left = w->runs; left > 0; --left) {
    ready* const r = &w->ready;
    int fine = intact_prepare(r->session, r->shapes, &error) == INTACT_OK;
    fine = fine && intact_run(r->session, (const void* const*)r->inputs, r->outputs, &error) == INTACT_OK;
    w->failed += !fine;
    int same = 1;
    for (size_t i = 0; i < r->output_count; ++i) same &= memcmp(r->outputs[i], r->first[i], r->bytes[i]) == 0;
    w->different += !same;
  }
  pthread_barrier_wait(w->start);
  return NULL;
}

static void run_on_threads(intact_plan* plan, long runs, long threads) {
  static worker workers[MOST_THREADS];
  pthread_t ids[MOST_THREADS];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
  for (long i = 0; i < threads; ++i) {
    workers[i].runs = runs / threads;
    workers[i].start = &start;
    prepare(&workers[i].ready, plan, i);
  }
  for (long i = 0; i < threads; ++i) require(pthread_create(&ids[i], NULL, run, &workers[i]) == 0, 3);
  const long before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
  pthread_barrier_wait(&start);
  pthread_barrier_wait(&start);
  const long after = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
  long different = 0, failed = 0;
  for (long i = 0; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    different += workers[i].different;
    failed += workers[i].failed;
    release(&workers[i].ready);
  }
  pthread_barrier_destroy(&start);
  printf("%ld %ld %ld\n", after - before, different, failed);
}

static long resident_kilobytes(void) {
  char text[128] = "";
  long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  require(file != NULL, 3);
  if (fgets(text, sizeof text, file) != NULL) sscanf(text, "%*s %ld", &pages);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE) / 1024;
}

static void run_backwards(void* pool, intact_piece piece, void* job, int32_t count) {
  (void)pool;
  while (count > 0) piece(job, --count);
}

static void open_again(const char* path, const intact_options* options, long opens) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  long held = 0, resident = 0;
  for (long i = 0; i < opens; ++i) {
    if (i == opens / 2) {
      resident = resident_kilobytes();
      held = blocks;
    }
    intact_plan* plan = NULL;
    ready r;
    require(intact_open(path, options, &plan, &error) == INTACT_OK, 3);
    prepare(&r, plan, 0);
    release(&r);
    intact_close(plan);
  }
  const long more = blocks - held;
  printf("%ld %ld\n", more, resident_kilobytes() - resident);
}

int main(int argc, char** argv) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  intact_options options = {sizeof options, 2, NULL, NULL, NULL}, alone = {sizeof alone, 1, NULL, NULL, NULL};
  intact_plan* plan = NULL;
  if (argc == 6) options.parallel_for = run_backwards;
  if (argc < 5 || intact_open(argv[1], &options, &plan, &error) != INTACT_OK) return 2;
  require(allocations > 0, 4); /* those of the library are counted */
  const long threads = atol(argv[3]);
  require(threads > 0 && threads <= MOST_THREADS, 2);
  run_on_threads(plan, atol(argv[2]), threads);
  intact_close(plan);
  open_again(argv[1], &alone, atol(argv[4]));
  return 0;
}
