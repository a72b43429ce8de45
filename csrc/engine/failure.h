// How the engine refuses: one exception, which becomes a status and a text at the C interface.
#pragma once

#include <stdexcept>
#include <string>

#include "intact.h"

namespace intact::engine {

class Failure : public std::runtime_error {
 public:
  Failure(intact_status status_, const std::string& text) : std::runtime_error(text), status(status_) {}
  const intact_status status;
};

// "<where>: got <got>, want <want>".
[[noreturn]] inline void fail(intact_status status, const std::string& where, const std::string& got,
                              const std::string& want) {
  throw Failure(status, where + ": got " + got.substr(0, 200) + ", want " + want);
}

// Of a file that no writer of ours made, or that was damaged.
[[noreturn]] inline void fail_file(const std::string& where, const std::string& got,
                                   const std::string& want) {
  fail(INTACT_BAD_FILE, where, got, want);
}

}  // namespace intact::engine
