#include "calibration/reduce.h"

#include <limits>
#include <vector>

#include "base/fp_env.h"
#include "base/tuning.h"
#include "runtime/thread_pool.h"

namespace intact {
namespace {

using namespace tuning::tensors;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct AbsMax {
  const ReduceOps& ops;
  std::vector<float> amax;

  AbsMax(const ReduceOps& o, size_t n) : ops(o), amax(n, 0.0f) {}
  void row(const float* x, size_t n, size_t to) {
    const float found = ops.absmax(x, n);
    ops.absmax_each(&found, 1, &amax[to]);
  }
  void each(const float* x, size_t n, size_t to) { ops.absmax_each(x, n, &amax[to]); }
  void merge(const AbsMax& part, size_t from, size_t to) { ops.absmax_each(&part.amax[from], 1, &amax[to]); }
};

struct Ends {
  const ReduceOps& ops;
  std::vector<float> min, max;

  Ends(const ReduceOps& o, size_t n) : ops(o), min(n, kInf), max(n, -kInf) {}
  void row(const float* x, size_t n, size_t to) {
    const MinMax found = ops.minmax(x, n);
    ops.minmax_each(&found.min, 1, &min[to], &max[to]);
    ops.minmax_each(&found.max, 1, &min[to], &max[to]);
  }
  void each(const float* x, size_t n, size_t to) { ops.minmax_each(x, n, &min[to], &max[to]); }
  void merge(const Ends& part, size_t from, size_t to) {
    float unused_min = kInf, unused_max = -kInf;
    ops.minmax_each(&part.min[from], 1, &min[to], &unused_max);
    ops.minmax_each(&part.max[from], 1, &unused_min, &max[to]);
  }
};

// Rows of neighbours that belong to one granule, cut into pieces that can be converted.
template <class State>
void reduce_rows(const Layout& l, const Source& x, size_t begin, size_t end, State& state) {
  float scratch[kPiece];
  const size_t most = x.dtype == Real::f32 ? l.size() : kPiece;
  for (size_t i = begin; i < end;) {
    size_t n = l.inner - i % l.inner;
    n = n < end - i ? n : end - i;
    n = n < most ? n : most;
    state.row(x.read(i, n, scratch), n, l.granule_of_row(i / l.inner));
    i += n;
  }
}

// Short rows: whole periods side by side, one running result per column, folded at each group's end.
template <class State>
void reduce_columns(const Layout& l, const Source& x, size_t begin, size_t end, State& state) {
  float scratch[kPiece];
  const size_t period = l.period(), group = l.outer * period;
  const size_t width = period < kColumns ? kColumns / period * period : period;
  for (size_t i = begin; i < end;) {
    const size_t g = i / group, stop = (g + 1) * group < end ? (g + 1) * group : end;
    State columns(state.ops, width);
    while (i < stop) {
      const size_t phase = i % group % width;
      size_t n = width - phase < stop - i ? width - phase : stop - i;
      n = n < kPiece ? n : kPiece;
      columns.each(x.read(i, n, scratch), n, phase);
      i += n;
    }
    for (size_t c = 0; c < width; ++c) {
      state.merge(columns, c, g * l.channels + c % period / l.inner);
    }
  }
}

template <class State>
State reduce(const ReduceOps& ops, const Layout& l, const Source& x, int threads) {
  const int parts = parts_of(l.size(), kGrain, threads);
  std::vector<State> partial(static_cast<size_t>(parts), State(ops, l.granules()));
  parallel_for(l.size(), kGrain, threads, [&](size_t begin, size_t end, int part) {
    ScopedFpEnv env;
    State& state = partial[static_cast<size_t>(part)];
    if (l.granules() == 1 || l.inner >= kLongRow || l.outer == 1) {
      reduce_rows(l, x, begin, end, state);
    } else {
      reduce_columns(l, x, begin, end, state);
    }
  });
  ScopedFpEnv env;
  for (size_t part = 1; part < partial.size(); ++part) {
    for (size_t p = 0; p < l.granules(); ++p) partial[0].merge(partial[part], p, p);
  }
  return partial[0];
}

}  // namespace

void absmax(const ReduceOps& ops, const Layout& layout, const Source& x, int threads, float* amax) {
  const AbsMax found = reduce<AbsMax>(ops, layout, x, threads);
  for (size_t p = 0; p < layout.granules(); ++p) amax[p] = found.amax[p];
}

void minmax(const ReduceOps& ops, const Layout& layout, const Source& x, int threads, float* min,
            float* max) {
  const Ends found = reduce<Ends>(ops, layout, x, threads);
  ScopedFpEnv env;
  for (size_t p = 0; p < layout.granules(); ++p) {
    min[p] = found.min[p] + 0.0f;
    max[p] = found.max[p] + 0.0f;
  }
}

}  // namespace intact
