// One element at a time, and the names of the operations.
#include <cstring>

#include "kernels/elementwise/rows.h"

namespace intact {
namespace {

constexpr NamedElementwise kNames[] = {
#define INTACT_OPERATION(name, operands, operation) {name, operands, ElementwiseOperation::operation},
    INTACT_ELEMENTWISE(INTACT_OPERATION)
#undef INTACT_OPERATION
};

}  // namespace

const ElementwiseOps elementwise_ref = ops_of<convert_ref>();

const NamedElementwise* find_elementwise(const char* name) {
  for (const NamedElementwise& named : kNames) {
    if (std::strcmp(named.name, name) == 0) return &named;
  }
  return nullptr;
}

}  // namespace intact
