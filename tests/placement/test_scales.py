"""The scale of every tensor of a Q/DQ graph, where there is a pair and where codes were moved."""

from __future__ import annotations

import onnx

from intact.graph import load
from intact.placement.scales import tensor_scales

TEXT = """<ir_version: 9, opset_import: ["" : 17]>
net (float[n, 1, 8, 8] x) => (float[n, 1, 8, 8] y, float[n, 16] z)
<float half = {0.5}, float quarter = {0.25}, int8 zero = {0}, int8[1, 1, 1, 1] w = {3},
 int64[2] flat = {-1, 16}>
{
    xq = QuantizeLinear (x, half, zero)
    xr = DequantizeLinear (xq, half, zero)
    wr = DequantizeLinear (w, half, zero)
    y = Conv (xr, wr)
    xq2 = QuantizeLinear (x, quarter, zero)
    xr2 = DequantizeLinear (xq2, quarter, zero)
    c = Conv (xr2, wr)
    cq = QuantizeLinear (c, quarter, zero)
    cr = DequantizeLinear (cq, quarter, zero)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (cr)
    f = Reshape (p, flat)
    g = Relu (f)
    z = Softmax (g)
}"""


def test_pairs_moved_codes_and_two_scales_of_one_tensor() -> None:
    result = tensor_scales(load(onnx.parser.parse_model(TEXT)))
    assert {name: sorted(float(q.scale) for q in quantized) for name, quantized in result.items()} == {
        "x": [0.25, 0.5],  # its two readers quantize it differently
        "c": [0.25],
        "p": [0.25],  # a MaxPool hands codes on
        "f": [0.25],  # and a Reshape does; the Relu behind it computes, and the weight is no activation
    }
