// How the engine refuses: one exception, which becomes a status and a text at the C interface.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/inline.h"
#include "intact.h"

namespace intact::engine {

class Failure : public std::runtime_error {
 public:
  Failure(intact_status status_, const std::string& text) : std::runtime_error(text), status(status_) {}
  Failure(intact_status status_, const std::string& where_, const std::string& got_, const std::string& want_)
      : std::runtime_error(where_ + ": got " + got_ + ", want " + want_),
        status(status_),
        where(where_),
        got(got_),
        want(want_) {}
  // The same, of something within `place`.
  Failure at(const std::string& place) const {
    if (got.empty()) return {status, place + ": " + what()};
    return {status, where.empty() ? place : place + ": " + where, got, want};
  }
  const intact_status status;
  const std::string where, got, want;  // empty where the text alone says it
};

// What needs more memory than is allowed.
struct TooLarge : Failure {
  TooLarge(const std::string& place, int64_t bytes_, int64_t most)
      : Failure(INTACT_BAD_SHAPE, place, std::to_string(bytes_) + " bytes",
                "at most " + std::to_string(most)),
        bytes(bytes_) {}
  const int64_t bytes;
};

// "<where>: got <got>, want <want>".
[[noreturn]] INTACT_APART inline void fail(intact_status status, const std::string& where,
                                           const std::string& got, const std::string& want) {
  throw Failure(status, where, got.substr(0, 200), want);
}

// Of a file that no writer of ours made, or that was damaged.
[[noreturn]] INTACT_APART inline void fail_file(const std::string& where, const std::string& got,
                                                const std::string& want) {
  fail(INTACT_BAD_FILE, where, got, want);
}

}  // namespace intact::engine
