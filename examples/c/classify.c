/* Classifies an image with a plan file, without Python: the five largest outputs, one line each.
 *
 *   cc -std=c99 classify.c -I$(python -c 'import intact; print(intact.get_include())') \
 *     $(python -c 'import intact; print(intact.get_library())') -o classify
 *   ./classify resnet18.plan photo.ppm
 *
 * The image is a binary PPM (P6), which any converter writes, of the size that the network wants. Channels are
 * normalized with ImageNet's mean and deviation, as torchvision's models want it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "intact.h"

static const float kMean[3] = {0.485f, 0.456f, 0.406f}, kDeviation[3] = {0.229f, 0.224f, 0.225f};

static void fail(const char* what, const intact_error* error) {
  fprintf(stderr, "%s: %s\n", what, error == NULL ? "it cannot be used" : error->text);
  exit(1);
}

/* Planes of red, green and blue, normalized; sizes are those of the image. */
static float* read_ppm(const char* path, int* height, int* width) {
  FILE* const file = fopen(path, "rb");
  int most = 0, h = 0, w = 0;
  if (file == NULL || fscanf(file, "P6 %d %d %d", &w, &h, &most) != 3 || fgetc(file) == EOF) fail(path, NULL);
  if (w < 1 || h < 1 || w > 4096 || h > 4096 || most != 255) fail(path, NULL);
  const size_t pixels = (size_t)h * (size_t)w;
  unsigned char* const bytes = malloc(3 * pixels);
  float* const planes = malloc(3 * pixels * sizeof *planes);
  if (bytes == NULL || planes == NULL || fread(bytes, 3, pixels, file) != pixels) fail(path, NULL);
  for (size_t i = 0; i < 3 * pixels; ++i) {
    const size_t channel = i % 3, pixel = i / 3;
    planes[channel * pixels + pixel] = ((float)bytes[i] / 255.0f - kMean[channel]) / kDeviation[channel];
  }
  free(bytes);
  fclose(file);
  *height = h;
  *width = w;
  return planes;
}

static void print_largest(float* scores, size_t count) {
  for (int place = 0; place < 5 && (size_t)place < count; ++place) {
    size_t best = 0;
    for (size_t i = 1; i < count; ++i) {
      if (scores[i] > scores[best]) best = i;
    }
    printf("class %zu: %.6f\n", best, (double)scores[best]);
    scores[best] = -1e30f;
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: classify model.plan image.ppm\n");
    return 2;
  }
  intact_error error = {sizeof error, INTACT_OK, ""};
  intact_plan* plan = NULL;
  intact_session* session = NULL;
  if (intact_open(argv[1], NULL, &plan, &error) != INTACT_OK) fail(argv[1], &error);
  if (intact_session_new(plan, &session, &error) != INTACT_OK) fail(argv[1], &error);

  /* Floats also where the plan has codes. */
  if (intact_set_input_type(session, 0, INTACT_FLOAT32, &error) != INTACT_OK) fail(argv[1], &error);
  if (intact_set_output_type(session, 0, INTACT_FLOAT32, &error) != INTACT_OK) fail(argv[1], &error);

  intact_shape shape = {4, {1, 3, 0, 0, 0, 0}};
  int height = 0, width = 0;
  float* const image = read_ppm(argv[2], &height, &width);
  shape.sizes[2] = height;
  shape.sizes[3] = width;
  if (intact_prepare(session, &shape, &error) != INTACT_OK) fail(argv[2], &error);

  intact_shape made;
  if (intact_output_shape(session, 0, &made, &error) != INTACT_OK) fail(argv[1], &error);
  size_t count = 1;
  for (int axis = 0; axis < made.rank; ++axis) count *= (size_t)made.sizes[axis];
  float* const scores = malloc(count * sizeof *scores);
  if (scores == NULL) fail("memory", NULL);

  const void* inputs[1] = {image};
  void* outputs[1] = {scores};
  if (intact_run(session, inputs, outputs, &error) != INTACT_OK) fail(argv[1], &error);
  print_largest(scores, count);

  free(scores);
  free(image);
  intact_session_free(session);
  intact_close(plan);
  return 0;
}
