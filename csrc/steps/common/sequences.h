// Sequences of tokens that are not all new.
#pragma once

#include <algorithm>
#include <cstdint>

#include "steps/common/lines.h"
#include "steps/common/row_index.h"

namespace intact {

// New tokens of each sequence, and the position of its last one (numerics.tokens_before).
class Sequences {
 public:
  Sequences(const View& last, int64_t rows) : last_(last) {
    demand(is_index(last) && last.rank == 1, "positions are int32 or int64, one for each sequence");
    elements_of(last);
    const int64_t count = last.sizes[0];
    demand(rows >= 0 && rows < kMostElements && (count > 0 ? rows % count == 0 : rows == 0),
           "as many tokens for each sequence");
    tokens_ = count > 0 ? rows / count : 0;
  }

  int64_t count() const { return last_.sizes[0]; }
  int64_t tokens() const { return tokens_; }  // of each sequence
  const View& view() const { return last_; }

  // Tokens that a sequence had; a negative number or one beyond `most` fails the run and is 0.
  int64_t before(const Memory& memory, int64_t sequence, int64_t most) const {
    const int64_t last = index_at(last_, last_.at<uint8_t>(memory) + sequence * last_.strides[0]);
    if (last < tokens_) return 0;
    if (last >= most) {
      memory.fail();
      return 0;
    }
    return last + 1 - tokens_;
  }

 private:
  View last_;
  int64_t tokens_;
};

}  // namespace intact
