#include "tensors/quantization.h"

#include <algorithm>
#include <vector>

#include "base/fp_env.h"
#include "base/tuning.h"
#include "tensors/grid_walk.h"
#include "runtime/thread_pool.h"

namespace intact {
namespace {

using namespace tuning::tensors;

// emit(first, n, grid) on every run, cut into pieces when a dtype needs conversion.
template <class Emit>
void for_each_run(const Tensors& t, bool in_pieces, Emit emit) {
  parallel_for(t.layout.size(), kGrain, t.threads, [&](size_t begin, size_t end, int) {
    ScopedFpEnv env;
    walk_grid(t.layout, t.all, begin, end, [&](size_t first, size_t n, const Grid& grid) {
      const size_t step = in_pieces ? kPiece : n;
      for (size_t done = 0; done < n; done += step) {
        emit(first + done, step < n - done ? step : n - done, shifted(grid, done));
      }
    });
  });
}

}  // namespace

void fake_quantize(const FakeQuantizeOps& ops, const Tensors& t, const Source& x, const Sink& y) {
  const bool in_pieces = x.dtype != Real::f32 || y.dtype != Real::f32;
  for_each_run(t, in_pieces, [&](size_t first, size_t n, const Grid& grid) {
    float from[kPiece], to[kPiece];
    float* out = y.place(first, to);
    ops.run(x.read(first, n, from), n, grid, out);
    y.write(first, n, out);
  });
}

void fake_quantize_grad(const FakeQuantizeGradOps& ops, const Tensors& t, const Source& grad, const Source& x,
                        const Sink& y) {
  const bool in_pieces = x.dtype != Real::f32 || grad.dtype != Real::f32;
  for_each_run(t, in_pieces, [&](size_t first, size_t n, const Grid& grid) {
    float from[kPiece], grad_from[kPiece], to[kPiece];
    float* out = y.place(first, to);
    ops.run(grad.read(first, n, grad_from), x.read(first, n, from), n, grid, out);
    y.write(first, n, out);
  });
}

// Each row of neighbours of one granule in pieces, whose sums are added one after the other, so that the
// number of threads changes nothing.
void learned_range_grad(const FakeQuantizeGradOps& ops, const Tensors& t, const Source& grad, const Source& x,
                        const Source& y, const Sink& to_x, double* sums) {
  const Layout& l = t.layout;
  const bool one = l.granules() == 1;
  const size_t length = one ? l.size() : l.inner, pieces = (length + kPiece - 1) / kPiece;
  std::vector<RangeSums> found(l.size() / length * pieces);
  const size_t grain = kGrain / (length < kPiece ? length : kPiece);
  parallel_for(found.size(), grain, t.threads, [&](size_t begin, size_t end, int) {
    ScopedFpEnv env;
    float grads[kPiece], from[kPiece], made[kPiece], to[kPiece];
    for (size_t i = begin; i < end; ++i) {
      const size_t row = i / pieces, at = i % pieces * kPiece, first = row * length + at;
      const size_t n = kPiece < length - at ? kPiece : length - at, p = one ? 0 : l.granule_of_row(row);
      float* const out = to_x.place(first, to);
      found[i] = ops.learn(grad.read(first, n, grads), x.read(first, n, from), y.read(first, n, made), n,
                           t.all.low[p], t.all.high[p], out);
      to_x.write(first, n, out);
    }
  });
  std::fill_n(sums, 3 * l.granules(), 0.0);
  for (size_t i = 0; i < found.size(); ++i) {
    double* const to = sums + (one ? 0 : 3 * l.granule_of_row(i / pieces));
    to[0] += static_cast<double>(found[i].between);
    to[1] += static_cast<double>(found[i].beyond);
    to[2] += static_cast<double>(found[i].shift);
  }
}

void quantize(const QuantizeOps& ops, const Tensors& t, const Source& x, Codes codes, uint8_t* q) {
  for_each_run(t, x.dtype != Real::f32, [&](size_t first, size_t n, const Grid& grid) {
    float from[kPiece];
    ops.quantize(x.read(first, n, from), n, grid, codes, q + first);
  });
}

void dequantize(const QuantizeOps& ops, const Tensors& t, const uint8_t* q, Codes codes, float* y) {
  for_each_run(t, false, [&](size_t first, size_t n, const Grid& grid) {
    ops.dequantize(q + first, n, grid, codes, y + first);
  });
}

}  // namespace intact
