// The matmul kernels of this build against the plain one, on random products whose sides lie in any order:
// for instruction sets that run elsewhere, under an emulator or through the instructions of another set.
#include <vector>

#include "driver.h"
#include "kernels/matmul/matmul.h"
#include "steps/matmul.h"

namespace intact {

// The registry's, whose other families are no part of this program.
const char* name_of(const void*) { return "matmul"; }

namespace {

const Named<MatMulOps> kKernels[] = {
#define INTACT_KERNEL(name, needs) {#name, &name},
#include "kernels/matmul/kernels.inc"
#undef INTACT_KERNEL
};

// A matrix whose rows or columns are neighbours, or neither.
View matrix(uint32_t block, Type type, int rows, int columns) {
  View v;
  v.block = block;
  v.type = type;
  v.rank = 2;
  v.sizes = {rows, columns};
  const int64_t unit = static_cast<int64_t>(bytes_of(type)) * (pick(1, 4) == 1 ? 2 : 1);
  if (pick(0, 1) == 0) {
    v.strides = {columns * unit, unit};
  } else {
    v.strides = {unit, rows * unit};
  }
  return v;
}

size_t room(const View& v) {
  return static_cast<size_t>((v.sizes[0] - 1) * v.strides[0] + (v.sizes[1] - 1) * v.strides[1]) +
         bytes_of(v.type);
}

struct Product {
  MatMulSpec spec{};
  std::vector<uint8_t> a, b;

  Product() {
    const int rows = pick(1, 40), columns = pick(1, 150), k = pick(1, pick(0, 1) == 0 ? 40 : 300);
    const bool floats = pick(0, 1) == 0;
    spec.a = matrix(0, Type::u8, rows, k);
    spec.b = matrix(1, Type::u8, k, columns);
    spec.y = matrix(2, floats ? Type::f32 : Type::u8, rows, columns);
    spec.zeros = {pick(0, 3) == 0 ? 0 : pick(0, 255), pick(0, 3) == 0 ? 128 : pick(0, 255)};
    EpilogueSpec epilogue;
    epilogue.multiplier = {static_cast<float>(pick(-1000, 1000)) * (pick(0, 9) == 0 ? 1e20f : 1e-6f)};
    epilogue.bias = {0};
    epilogue.correction = {0};
    epilogue.floats = floats;
    const int32_t low = pick(0, 255);
    epilogue.zero_point = pick(0, 255);
    epilogue.low = low;
    epilogue.high = pick(low, 255);
    epilogue.real_low = -20;
    epilogue.real_high = 35;
    spec.epilogue = settle_product(epilogue);
    a.resize(room(spec.a));
    b.resize(room(spec.b));
    const int fill = pick(0, 3);
    for (std::vector<uint8_t>* side : {&a, &b}) {
      for (uint8_t& code : *side) code = fill == 0 ? 255 : static_cast<uint8_t>(random_bits());
    }
  }
};

std::vector<uint8_t> run(const Product& product, const MatMulOps& ops) {
  const std::unique_ptr<Step> step = make_matmul(ops, product.spec);
  std::vector<uint8_t> a = product.a, b = product.b, y(room(product.spec.y), 0xa5);
  uint8_t* const blocks[] = {a.data(), b.data(), y.data()};
  run_whole(*step, blocks);
  return y;
}

}  // namespace
}  // namespace intact

int main(int count, char** arguments) {
  return intact::compare(intact::kKernels, count, arguments, 300, "products", [](const auto& ops) {
    const intact::Product product;
    return intact::run(product, ops) != intact::run(product, intact::matmul_ref);
  });
}
