#include "runtime/elementwise.h"

#include "base/fp_env.h"
#include "runtime/grid_walk.h"
#include "runtime/thread_pool.h"

namespace intact {
namespace {

constexpr size_t kGrain = 1 << 16;  // elements per thread below which waking one costs more

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
