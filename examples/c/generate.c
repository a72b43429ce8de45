/* Generates tokens with a language model that `intact lm quantize` wrote, without Python: greedily, one line.
 *
 *   cc -std=c99 generate.c -I$(python -c 'import intact; print(intact.get_include())') \
 *     $(python -c 'import intact; print(intact.get_library())') -o generate
 *   ./generate smollm2/model.plan 16 504 3575 282 4649 314
 *
 * The numbers are the tokens to generate and those of the prompt. The plan's inputs are `tokens` [batch, tokens],
 * `last` [batch] (the position of each sequence's last token), `total` (the longest sequence), `rows` (tokens
 * whose logits are wanted), `state_rows` (those whose hidden states are), and for each layer `keys.i` and
 * `values.i` [batch, heads, room, size], which are written in place where an output has the same memory.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intact.h"

enum { kMostPorts = 4096 };

typedef struct {
  intact_plan* plan;
  intact_session* session;
  size_t inputs, outputs, logits_at;
  intact_shape shapes[kMostPorts];
  const void* in[kMostPorts];
  void* out[kMostPorts];
  int64_t *tokens, row;
  int32_t last, total;
  float* logits;
  int64_t vocabulary;
} Model;

static void fail(const char* what, const intact_error* error) {
  fprintf(stderr, "%s: %s\n", what, error == NULL ? "it cannot be used" : error->text);
  exit(1);
}

static void require(intact_status status, const char* what, const intact_error* error) {
  if (status != INTACT_OK) fail(what, error);
}

/* The number of an input; as many as there are where none has the name. */
static size_t find_input(const Model* model, const char* name) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  for (size_t i = 0; i < model->inputs; ++i) {
    intact_port port = {.size = sizeof port};
    require(intact_input(model->plan, i, &port, &error), "an input", &error);
    if (strcmp(port.name, name) == 0) return i;
  }
  return model->inputs;
}

static void set_input(Model* model, const char* name, const void* data, int32_t rank, int64_t a, int64_t b) {
  const size_t input = find_input(model, name);
  if (input == model->inputs) fail(name, NULL);
  model->in[input] = data;
  model->shapes[input].rank = rank;
  model->shapes[input].sizes[0] = a;
  model->shapes[input].sizes[1] = b;
}

/* Keys and values for `room` tokens: one array for what was there, and for what a run adds. */
static void make_caches(Model* model, int64_t room) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  for (size_t i = 0; i < model->outputs; ++i) {
    intact_port port = {.size = sizeof port};
    require(intact_output(model->plan, i, &port, &error), "an output", &error);
    if (strncmp(port.name, "new_", 4) != 0) {
      /* Logits, and hidden states, of which none are wanted. */
      if (strcmp(port.name, "logits") == 0) model->logits_at = i;
      model->out[i] = &model->row;
      continue;
    }
    const size_t input = find_input(model, port.name + 4);
    if (input == model->inputs) fail(port.name, NULL);
    require(intact_input(model->plan, input, &port, &error), "an input", &error);
    intact_shape* const shape = &model->shapes[input];
    shape->rank = 4;
    shape->sizes[0] = 1;
    shape->sizes[1] = port.shape[1];
    shape->sizes[2] = room;
    shape->sizes[3] = port.shape[3];
    const size_t count = (size_t)(port.shape[1] * room * port.shape[3]);
    const size_t bytes = port.type == INTACT_INT8 ? 1 : port.type == INTACT_FLOAT16 ? 2 : 4;
    model->out[i] = calloc(count, bytes);
    if (model->out[i] == NULL) fail("memory", NULL);
    model->in[input] = model->out[i];
  }
}

/* Appends tokens; returns the one with the largest logit behind the last of them. */
static int64_t append(Model* model, int64_t count) {
  intact_error error = {sizeof error, INTACT_OK, ""};
  model->shapes[find_input(model, "tokens")].sizes[1] = count;
  model->last += (int32_t)count;
  model->total = model->last + 1;
  model->row = count - 1;
  require(intact_prepare(model->session, model->shapes, &error), "prepare", &error);
  intact_shape shape;
  require(intact_output_shape(model->session, model->logits_at, &shape, &error), "the logits", &error);
  model->vocabulary = shape.sizes[1];
  model->logits = realloc(model->logits, (size_t)model->vocabulary * sizeof(float));
  if (model->logits == NULL) fail("memory", NULL);
  model->out[model->logits_at] = model->logits;
  require(intact_run(model->session, model->in, model->out, &error), "run", &error);
  int64_t best = 0;
  for (int64_t i = 1; i < model->vocabulary; ++i) {
    if (model->logits[i] > model->logits[best]) best = i;
  }
  return best;
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: generate model.plan count token...\n");
    return 2;
  }
  static Model model;
  intact_error error = {sizeof error, INTACT_OK, ""};
  const intact_options options = {.size = sizeof options, .threads = 1};
  require(intact_open(argv[1], &options, &model.plan, &error), argv[1], &error);
  model.inputs = intact_input_count(model.plan);
  model.outputs = intact_output_count(model.plan);
  if (model.inputs > kMostPorts || model.outputs > kMostPorts) fail(argv[1], NULL);
  require(intact_session_new(model.plan, &model.session, &error), argv[1], &error);

  const long count = strtol(argv[2], NULL, 10);
  const int64_t length = argc - 3;
  if (count < 1 || count > 1000000) fail("the number of tokens", NULL);
  make_caches(&model, length + count);
  model.tokens = malloc((size_t)length * sizeof *model.tokens);
  if (model.tokens == NULL) fail("memory", NULL);
  for (int64_t i = 0; i < length; ++i) model.tokens[i] = strtoll(argv[3 + i], NULL, 10);
  set_input(&model, "tokens", model.tokens, 2, 1, length);
  set_input(&model, "last", &model.last, 1, 1, 0);
  set_input(&model, "total", &model.total, 0, 0, 0);
  set_input(&model, "rows", &model.row, 1, 1, 0);
  if (find_input(&model, "state_rows") < model.inputs) set_input(&model, "state_rows", &model.row, 1, 0, 0);

  model.last = -1;
  int64_t token = append(&model, length);
  for (long i = 0; i < count; ++i) {
    printf("%s%lld", i > 0 ? " " : "", (long long)token);
    if (i + 1 == count) break;
    model.tokens[0] = token;
    token = append(&model, 1);
  }
  printf("\n");

  for (size_t i = 0; i < model.outputs; ++i) {
    if (model.out[i] != &model.row) free(model.out[i]);
  }
  free(model.tokens);
  intact_session_free(model.session);
  intact_close(model.plan);
  return 0;
}
