// Prints a function of the portable kernel at -100 / 16, -99 / 16, ..., 100 / 16.
#include <cstdio>

#include "kernels/float_steps/float_steps.h"

int main(int, char** names) {
  const intact::NamedFunction* named = intact::find_function(intact::float_steps_ref, names[1]);
  if (named == nullptr) return 1;
  for (int i = -100; i <= 100; ++i) {
    const float x = static_cast<float>(i) / 16;
    float y;
    named->function(&x, &y, 1);
    std::printf("%a\n", static_cast<double>(y));
  }
}
