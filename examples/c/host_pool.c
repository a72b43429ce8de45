/* Runs a plan on threads of this program in place of the library's: a pool of pthreads, or OpenMP's where the compiler
 * has it (-fopenmp).
 *
 *   cc -std=c99 host_pool.c $(intact-config --cflags --libs) -pthread -o host_pool
 *   ./host_pool resnet18.plan 4
 *
 * Inputs are a pattern, and free sizes are 1. Prints the name and a checksum of every output: they are the same for
 * any number of threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intact.h"

enum { kMostPorts = 16, kMostThreads = 64 };

#ifdef _OPENMP

static void run_pieces(void* pool, intact_piece piece, void* job, int32_t count) {
  (void)pool;
#pragma omp parallel for num_threads(count) schedule(static, 1)
  for (int32_t index = 0; index < count; ++index) piece(job, index);
}

#else

/* Threads that wait for pieces. One caller at a time has them. */
typedef struct {
  pthread_mutex_t turn, lock; /* the caller's, and of all below */
  pthread_cond_t begin, end;
  intact_piece piece;
  void* job;
  int32_t next, count, left; /* the piece that nobody has yet, how many there are, and are not done */
  int stop;
  pthread_t threads[kMostThreads];
  int thread_count;
} pool_t;

/* Runs pieces while there are any. Holds the lock before and after, and not meanwhile. */
static void take_pieces(pool_t* pool) {
  while (pool->next < pool->count) {
    const int32_t index = pool->next++;
    pthread_mutex_unlock(&pool->lock);
    pool->piece(pool->job, index);
    pthread_mutex_lock(&pool->lock);
    if (--pool->left == 0) pthread_cond_signal(&pool->end);
  }
}

static void* serve(void* argument) {
  pool_t* const pool = argument;
  pthread_mutex_lock(&pool->lock);
  while (!pool->stop) {
    take_pieces(pool);
    if (!pool->stop) pthread_cond_wait(&pool->begin, &pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* An intact_parallel_for. A caller that finds the threads busy does its pieces alone. */
static void run_on_pool(void* argument, intact_piece piece, void* job, int32_t count) {
  pool_t* const pool = argument;
  if (pthread_mutex_trylock(&pool->turn) != 0) {
    for (int32_t index = 0; index < count; ++index) piece(job, index);
    return;
  }
  pthread_mutex_lock(&pool->lock);
  pool->piece = piece;
  pool->job = job;
  pool->next = 0;
  pool->count = pool->left = count;
  pthread_cond_broadcast(&pool->begin);
  take_pieces(pool);
  while (pool->left > 0) pthread_cond_wait(&pool->end, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
  pthread_mutex_unlock(&pool->turn);
}

/* Starts all threads but one: the caller works too. */
static void start_threads(pool_t* pool, int threads) {
  memset(pool, 0, sizeof *pool);
  pthread_mutex_init(&pool->turn, NULL);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->begin, NULL);
  pthread_cond_init(&pool->end, NULL);
  while (pool->thread_count + 1 < threads &&
         pthread_create(&pool->threads[pool->thread_count], NULL, serve, pool) == 0) {
    ++pool->thread_count;
  }
}

static void stop_threads(pool_t* pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stop = 1;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  while (pool->thread_count > 0) pthread_join(pool->threads[--pool->thread_count], NULL);
}

#endif

static void require(intact_status status, const intact_error* error) {
  if (status == INTACT_OK) return;
  fprintf(stderr, "%s\n", error->text);
  exit(1);
}

static size_t count_bytes(const intact_shape* shape, intact_type type) {
  static const size_t of_type[] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  size_t bytes = of_type[type];
  for (int axis = 0; axis < shape->rank; ++axis) bytes *= (size_t)shape->sizes[axis];
  return bytes;
}

static void* allocate(size_t bytes) {
  void* const made = calloc(1, bytes + 1);
  if (made == NULL) exit(1);
  return made;
}

/* A pattern of floats; zeros of other types, which may be indices. */
static void* make_input(const intact_shape* shape, intact_type type) {
  const size_t bytes = count_bytes(shape, type);
  float* const values = allocate(bytes);
  for (size_t i = 0; type == INTACT_FLOAT32 && i < bytes / sizeof *values; ++i) {
    values[i] = (float)((int)(i * 7 % 31) - 15) / 8;
  }
  return values;
}

static void run_plan(intact_plan* plan) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  intact_session* session = NULL;
  intact_shape shapes[kMostPorts];
  void *inputs[kMostPorts], *outputs[kMostPorts];
  size_t bytes[kMostPorts];
  const size_t input_count = intact_input_count(plan), output_count = intact_output_count(plan);
  if (input_count > kMostPorts || output_count > kMostPorts) exit(1);
  require(intact_session_new(plan, &session, &error), &error);
  for (size_t i = 0; i < input_count; ++i) {
    intact_port port;
    port.size = sizeof port;
    require(intact_input(plan, i, &port, &error), &error);
    shapes[i].rank = port.rank;
    for (int axis = 0; axis < port.rank; ++axis)
      shapes[i].sizes[axis] = port.shape[axis] < 0 ? 1 : port.shape[axis];
    inputs[i] = make_input(&shapes[i], port.type);
  }
  require(intact_prepare(session, shapes, &error), &error);
  for (size_t i = 0; i < output_count; ++i) {
    intact_port port;
    intact_shape shape;
    port.size = sizeof port;
    require(intact_output(plan, i, &port, &error), &error);
    require(intact_output_shape(session, i, &shape, &error), &error);
    bytes[i] = count_bytes(&shape, port.type);
    outputs[i] = allocate(bytes[i]);
  }
  require(intact_run(session, (const void* const*)inputs, outputs, &error), &error);
  for (size_t i = 0; i < output_count; ++i) {
    intact_port port;
    unsigned long checksum = 0;
    port.size = sizeof port;
    require(intact_output(plan, i, &port, &error), &error);
    for (size_t k = 0; k < bytes[i]; ++k) {
      checksum = (checksum * 31 + ((unsigned char*)outputs[i])[k]) & 0xffffffffUL;
    }
    printf("%s: %08lx\n", port.name, checksum);
    free(outputs[i]);
  }
  for (size_t i = 0; i < input_count; ++i) free(inputs[i]);
  intact_session_free(session);
}

int main(int argc, char** argv) {
  const int threads = argc == 3 ? atoi(argv[2]) : 0;
  if (threads < 1 || threads > kMostThreads) {
    fprintf(stderr, "usage: host_pool model.plan threads (1 to %d)\n", kMostThreads);
    return 2;
  }
  intact_error error = {sizeof error, INTACT_OK, ""};
  intact_plan* plan = NULL;
  intact_options options = {sizeof options, threads, NULL, NULL, NULL};
#ifdef _OPENMP
  options.parallel_for = run_pieces;
#else
  static pool_t pool;
  start_threads(&pool, threads);
  options.parallel_for = run_on_pool;
  options.pool = &pool;
#endif
  require(intact_open(argv[1], &options, &plan, &error), &error);
  run_plan(plan);
  intact_close(plan); /* before the threads end that it may ask for */
#ifndef _OPENMP
  stop_threads(&pool);
#endif
  return 0;
}
