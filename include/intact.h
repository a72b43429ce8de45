/* INTact: runs plan files (`intact build`) without Python.
 *
 *   intact_plan* plan;
 *   intact_session* session;
 *   intact_error error = {sizeof error};
 *   if (intact_open("model.plan", NULL, &plan, &error) != INTACT_OK) { puts(error.text); ... }
 *   intact_session_new(plan, &session, &error);
 *   intact_prepare(session, shapes, &error);          sizes of all inputs
 *   intact_run(session, inputs, outputs, &error);     the caller's memory
 *
 * Numbers are those of the integer reference on every machine, bit for bit (docs/numerics.md).
 *
 * Plans may be shared by threads; a session belongs to one thread at a time (a call beside another's run or
 * prepare is refused), and any number of sessions may run on one plan at once. After intact_prepare, intact_run
 * allocates nothing and starts no thread. No call throws.
 * What a call wants to say beyond its status it writes into an intact_error of the caller's; NULL: into nothing.
 * Structs begin with their size, so that older programs run with newer libraries: fill it in with sizeof.
 */
#ifndef INTACT_H
#define INTACT_H

#include <stddef.h>
#include <stdint.h>

#if defined(INTACT_STATIC)
#define INTACT_API
#elif defined(_WIN32)
#if defined(INTACT_BUILD)
#define INTACT_API __declspec(dllexport)
#else
#define INTACT_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define INTACT_API __attribute__((visibility("default")))
#else
#define INTACT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of this header; programs of an older one keep working. */
#define INTACT_API_VERSION 4
#define INTACT_MAX_RANK 6

typedef enum intact_status {
  INTACT_OK = 0,
  INTACT_BAD_ARGUMENT = 1, /* a pointer, a size of a struct, a number out of range */
  INTACT_NO_FILE = 2,      /* it cannot be read */
  INTACT_BAD_FILE = 3,     /* it is no plan, or damaged */
  INTACT_UNSUPPORTED = 4,  /* a plan with parts that only Python runs; the text names them */
  INTACT_BAD_SHAPE = 5,    /* sizes of inputs that contradict each other or the plan */
  INTACT_BAD_INDEX = 6,    /* a run met an index of rows that are not there */
  INTACT_NO_MEMORY = 7,
  INTACT_NOT_PREPARED = 8,
  INTACT_INTERNAL = 9,  /* a fault of this library: please report it */
  INTACT_CANCELLED = 10, /* intact_cancel stopped the run */
  INTACT_DIFFERENT = 11  /* a self-test whose outputs are not those of the machine that built the plan */
} intact_status;

typedef enum intact_type {
  INTACT_UINT8 = 0,
  INTACT_INT8 = 1,
  INTACT_BOOL = 2,
  INTACT_INT16 = 3,
  INTACT_UINT16 = 4,
  INTACT_FLOAT16 = 5,
  INTACT_INT32 = 6,
  INTACT_UINT32 = 7,
  INTACT_FLOAT32 = 8,
  INTACT_INT64 = 9,
  INTACT_UINT64 = 10,
  INTACT_FLOAT64 = 11
} intact_type;

typedef struct intact_plan intact_plan;
typedef struct intact_session intact_session;

typedef struct intact_error {
  size_t size; /* sizeof(intact_error) */
  intact_status status;
  char text[1000]; /* UTF-8, ends with 0 */
} intact_error;

/* A piece of the work of a run, which the library hands to intact_parallel_for. It neither waits nor throws. */
typedef void (*intact_piece)(void* job, int32_t index);
/* The threads of the program around: calls piece(job, index) once for every index from 0 to count - 1, and returns
 * when all these calls have returned. It may make them on any threads, in any order, side by side or one after the
 * other: outputs do not depend on it. No piece waits for another one, so that fewer threads than `threads`, busy
 * ones, or the caller's alone will do. It must not throw. Runs of several sessions may call it at once, and a run
 * that is itself a task of the same pool may call it there. */
typedef void (*intact_parallel_for)(void* pool, intact_piece piece, void* job, int32_t count);

typedef struct intact_options {
  size_t size;         /* sizeof(intact_options) */
  int32_t threads;     /* of a run, the caller's included; 1: none of its own; 0: one for each processor */
  const char* max_isa; /* "none", "avx2", "avxvnni", "avx512", "amx" or "neon": use nothing above it. NULL: what
                          INTACT_MAX_ISA says in the environment, or all that the machine has */
  /* Since version 3. */
  intact_parallel_for parallel_for; /* runs up to `threads` pieces at a time, and the library starts no thread.
                                       NULL: threads of its own */
  void* pool;                       /* its first argument */
} intact_options;

/* An input or an output. */
typedef struct intact_port {
  size_t size;      /* sizeof(intact_port) */
  const char* name; /* for as long as the plan is open */
  intact_type type; /* codes are INTACT_INT8 or INTACT_UINT8 */
  int32_t rank;
  int64_t shape[INTACT_MAX_RANK];          /* -1: free */
  const char* dimension[INTACT_MAX_RANK]; /* the name of a free size; else NULL */
  int32_t is_codes;   /* a code q means (q - zero_point) * scale */
  float scale;
  int32_t zero_point;
} intact_port;

/* What a prepared session runs in order: a native step. A step of the plan may be several of them, or none. */
typedef struct intact_step {
  size_t size;        /* sizeof(intact_step) */
  const char* name;   /* of the step of the plan; of a copy of an input or output, that one's */
  const char* kind;   /* of the step of the plan; "input" or "output" of such a copy */
  const char* kernel; /* what runs */
} intact_step;

/* Sizes of one input, or of one output. */
typedef struct intact_shape {
  int32_t rank;
  int64_t sizes[INTACT_MAX_RANK];
} intact_shape;

/* Bytes that a session needs for inputs of some sizes, beside weights. Since version 4. */
typedef struct intact_memory {
  size_t size;      /* sizeof(intact_memory) */
  size_t workspace; /* memory of a run: tensors, and scratch of every thread */
  size_t binding;   /* about what the session keeps of these sizes: native steps and shapes */
} intact_memory;

/* INTACT_API_VERSION of the library. */
INTACT_API int32_t intact_api_version(void);
/* Of the library, such as "0.9.0". */
INTACT_API const char* intact_version(void);

/* Opens a plan file, mapped read-only: processes share its weights. `options` may be NULL. */
INTACT_API intact_status intact_open(const char* path, const intact_options* options, intact_plan** plan,
                                     intact_error* error);
/* The same, of bytes in memory, which stay as they are until the plan is closed. They are copied unless they
 * begin at a multiple of 64. */
INTACT_API intact_status intact_open_memory(const void* data, size_t bytes, const intact_options* options,
                                            intact_plan** plan, intact_error* error);
/* Its sessions go first. NULL: nothing. */
INTACT_API void intact_close(intact_plan* plan);

INTACT_API size_t intact_input_count(const intact_plan* plan);
INTACT_API size_t intact_output_count(const intact_plan* plan);
INTACT_API intact_status intact_input(const intact_plan* plan, size_t index, intact_port* port,
                                      intact_error* error);
INTACT_API intact_status intact_output(const intact_plan* plan, size_t index, intact_port* port,
                                       intact_error* error);

/* Runs the self-test that `intact build` put into the plan, in a session of its own. INTACT_DIFFERENT: the text
 * names the first output that is not, bit for bit, what it was where the plan was built. INTACT_UNSUPPORTED: the
 * plan has no self-test. */
INTACT_API intact_status intact_selftest(intact_plan* plan, intact_error* error);

INTACT_API intact_status intact_session_new(intact_plan* plan, intact_session** session, intact_error* error);
INTACT_API void intact_session_free(intact_session* session);

/* Lets the caller's arrays of an input, or of an output, be of this type from the next intact_prepare on: that of
 * the port, or INTACT_FLOAT32 for one of codes. Floats in become codes, and codes out floats, as QuantizeLinear and
 * DequantizeLinear make them (docs/numerics.md, N11 and N12). The session is prepared for nothing then. */
INTACT_API intact_status intact_set_input_type(intact_session* session, size_t index, intact_type type,
                                               intact_error* error);
INTACT_API intact_status intact_set_output_type(intact_session* session, size_t index, intact_type type,
                                                intact_error* error);

/* Since version 4. Lets the caller's arrays of an input, or of an output, have gaps, or axes in another order, from
 * the next intact_prepare on: `strides` are the bytes from an element to the next one along each axis, `count` of
 * them, the port's rank. NULL: dense arrays again. They are multiples of the element, that of the type which was set.
 * An input's may be negative, and 0 where elements repeat along an axis; an output's may be negative, but its elements
 * must not overlap. intact_prepare refuses others with INTACT_BAD_ARGUMENT. Runs get the address of element
 * (0, ..., 0). Kernels read and write such arrays where they lie, or a native step copies them: intact_run allocates
 * nothing either way. */
INTACT_API intact_status intact_set_input_strides(intact_session* session, size_t index, const int64_t* strides,
                                                  size_t count, intact_error* error);
INTACT_API intact_status intact_set_output_strides(intact_session* session, size_t index, const int64_t* strides,
                                                   size_t count, intact_error* error);

/* Makes the session ready for inputs of these sizes, one entry for each input. What that takes is kept, up to 64 MiB
 * a session, so that sizes which come again cost next to nothing; of more, those used longest ago are dropped. New
 * sizes cost 2 to 4 microseconds a step. After an error it is ready for nothing. */
INTACT_API intact_status intact_prepare(intact_session* session, const intact_shape* shapes, intact_error* error);
/* Since version 4. Writes what intact_prepare takes for these sizes, with the types and strides that were set, and
 * allocates no memory of runs for it. The session stays prepared for what it was, and keeps the binding that it made
 * to find out, so that preparing these sizes next costs little. */
INTACT_API intact_status intact_workspace_size(intact_session* session, const intact_shape* shapes,
                                               intact_memory* memory, intact_error* error);
/* Since version 4. The same as intact_prepare, but runs use the caller's memory: at least as many bytes as
 * intact_workspace_size says, at a multiple of 64. It belongs to the session until that is prepared otherwise or
 * freed. Sessions that do not run at the same time may share it. */
INTACT_API intact_status intact_prepare_in(intact_session* session, const intact_shape* shapes, void* workspace,
                                           size_t bytes, intact_error* error);
/* Of a prepared session. */
INTACT_API intact_status intact_output_shape(const intact_session* session, size_t index, intact_shape* shape,
                                             intact_error* error);
/* Bytes that a prepared session holds for itself, beside weights: memory of runs, as much as the largest of its
 * sizes took and up to a quarter more, or none where the caller's is used; and what it keeps of all sizes. */
INTACT_API size_t intact_workspace_bytes(const intact_session* session);

/* Runs once. Arrays are dense, row-major, or have the strides that were set, and are of the ports' types or of those
 * that were set; one for each port in order. */
INTACT_API intact_status intact_run(intact_session* session, const void* const* inputs, void* const* outputs,
                                    intact_error* error);
/* Runs once, and writes into `seconds` what each native step took: `count` numbers, intact_step_count of them. A
 * run that takes no time measured is intact_run: this one asks the clock twice a step. It allocates nothing. */
INTACT_API intact_status intact_profile(intact_session* session, const void* const* inputs,
                                        void* const* outputs, double* seconds, size_t count,
                                        intact_error* error);
/* Native steps of a prepared session; 0 of any other. */
INTACT_API size_t intact_step_count(const intact_session* session);
/* One of them. Its texts are there until the session is prepared for other sizes, or freed. */
INTACT_API intact_status intact_step_at(intact_session* session, size_t index, intact_step* step,
                                        intact_error* error);
/* Stops the run that is going on in the session before its next native step; that run returns INTACT_CANCELLED.
 * Its outputs then hold any mixture of old, new and unfinished elements, and the next run works as any other.
 * Any thread may call it, and a handler of a signal: it takes no lock and allocates nothing. A session that runs
 * nothing is left alone, and so is a run whose last step has begun. The session must not be freed meanwhile.
 * NULL: nothing. */
INTACT_API void intact_cancel(intact_session* session);

#ifdef __cplusplus
}
#endif

#endif /* INTACT_H */
