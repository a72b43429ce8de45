// Opens bytes as a plan through the C interface and runs it where it opens.
#pragma once

#include <cstddef>
#include <string>

#include "intact.h"

struct HostileResult {
  intact_status status = INTACT_OK;
  std::string text;  // of an error
};

// Every call that a program makes: the plan is opened in memory, prepared and run for free sizes of 1 to 3, and
// tests itself. INTACT_INTERNAL is a fault of the library.
HostileResult run_hostile(const unsigned char* data, size_t bytes);
