// Whole tensors through the element-wise families. `all` holds one entry per granule of the layout;
// x, y (and grad) have layout.size() elements. May throw std::bad_alloc and nothing else.
#pragma once

#include "base/grid.h"
#include "kernels/fake_quantize/fake_quantize.h"
#include "kernels/fake_quantize_grad/fake_quantize_grad.h"
#include "kernels/quantize/quantize.h"
#include "tensors/real.h"

namespace intact {

struct Tensors {
  Layout layout;
  Grid all;
  int threads;
};

void fake_quantize(const FakeQuantizeOps& ops, const Tensors& t, const Source& x, const Sink& y);
void fake_quantize_grad(const FakeQuantizeGradOps& ops, const Tensors& t, const Source& grad, const Source& x,
                        const Sink& y);
// numerics.learned_range_grad: to_x, and for each granule the three sums, `sums` being [granules, 3]. The
// layout's parameters are read for whole granules.
void learned_range_grad(const FakeQuantizeGradOps& ops, const Tensors& t, const Source& grad, const Source& x,
                        const Source& y, const Sink& to_x, double* sums);
void quantize(const QuantizeOps& ops, const Tensors& t, const Source& x, Codes codes, uint8_t* q);
void dequantize(const QuantizeOps& ops, const Tensors& t, const uint8_t* q, Codes codes, float* y);

}  // namespace intact
