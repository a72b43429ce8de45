// The self-test of a plan file: sizes and a seed that say what goes in, and checksums of what comes out
// (docs/plan-format.md). src/intact/engine/selftest.py is the same in Python, and makes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/axes.h"

namespace intact::engine {

class Fields;
class Plan;
struct OpenPlan;

struct SelfTest {
  uint32_t seed = 0;
  std::vector<Shape> shapes;         // of every input
  std::vector<uint32_t> checksums;  // CRC-32 of every output
};

// Throws Failure (INTACT_BAD_FILE) for what no writer of plans makes.
SelfTest read_selftest(Fields fields);
// The same, where the self-test does not fit the inputs and outputs of its plan.
void check_selftest(const Plan& plan, const std::string& where);
// Throws Failure: INTACT_DIFFERENT names the output that is not what it was where the plan was built;
// INTACT_UNSUPPORTED for a plan without a self-test.
void run_selftest(OpenPlan& open);

}  // namespace intact::engine
