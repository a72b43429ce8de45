// One element at a time, and the names of the operations.
#include <cstring>

#include "kernels/elementwise/rows.h"

namespace intact {
namespace {

constexpr NamedElementwise kNames[] = {
    {"abs", 1, ElementwiseOperation::abs},
    {"add", 2, ElementwiseOperation::add},
    {"and", 2, ElementwiseOperation::logical_and},
    {"cast", 1, ElementwiseOperation::cast},
    {"ceil", 1, ElementwiseOperation::ceil},
    {"div", 2, ElementwiseOperation::div},
    {"equal", 2, ElementwiseOperation::equal},
    {"exp", 1, ElementwiseOperation::exp},
    {"floor", 1, ElementwiseOperation::floor},
    {"fmod", 2, ElementwiseOperation::fmod},
    {"greater", 2, ElementwiseOperation::greater},
    {"greater_or_equal", 2, ElementwiseOperation::greater_or_equal},
    {"is_inf", 1, ElementwiseOperation::is_inf},
    {"is_nan", 1, ElementwiseOperation::is_nan},
    {"is_neg_inf", 1, ElementwiseOperation::is_neg_inf},
    {"is_pos_inf", 1, ElementwiseOperation::is_pos_inf},
    {"less", 2, ElementwiseOperation::less},
    {"less_or_equal", 2, ElementwiseOperation::less_or_equal},
    {"max", 2, ElementwiseOperation::max},
    {"min", 2, ElementwiseOperation::min},
    {"mod", 2, ElementwiseOperation::mod},
    {"mul", 2, ElementwiseOperation::mul},
    {"neg", 1, ElementwiseOperation::neg},
    {"not", 1, ElementwiseOperation::logical_not},
    {"or", 2, ElementwiseOperation::logical_or},
    {"round", 1, ElementwiseOperation::round},
    {"sub", 2, ElementwiseOperation::sub},
    {"where", 3, ElementwiseOperation::where},
    {"xor", 2, ElementwiseOperation::logical_xor},
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
