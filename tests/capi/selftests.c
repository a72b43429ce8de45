/* Runs the self-test of every plan that it is given, and prints one line for each: its status and the error's text.
 *
 *   selftests max_isa threads plans        max_isa: as in intact_options; "" for all that the machine has
 */
#include <stdio.h>
#include <stdlib.h>

#include "intact.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int i = 3; i < argc; ++i) {
    intact_error error = {sizeof error, INTACT_OK, ""};
    const intact_options options = {sizeof options, (int32_t)atoi(argv[2]), argv[1], NULL, NULL};
    intact_plan* plan = NULL;
    intact_status status = intact_open(argv[i], &options, &plan, &error);
    if (status == INTACT_OK) status = intact_selftest(plan, &error);
    printf("%d %s\n", (int)status, error.text);
    intact_close(plan);
  }
  return 0;
}
