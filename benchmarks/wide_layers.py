"""Layers of 16-bit codes beside the same ones in int8 and in float: what a product and an element take.

    python benchmarks/wide_layers.py [--rounds 30]     # INTACT_MAX_ISA=avx512, avxvnni, avx2: other machines

A case is two layers, from some channels to others and back, all pairs of one format, or none; timed are their
steps, and those that bring floats to the grid in front of each: the least times of all rounds, in turns, one
thread. Below, the least squares of `products * a + elements * b` over all cases, relative to a product of
int8: elements are those that each layer reads or makes, as `intact.ptq.mixed.predicted_time` counts them.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import intact
from intact.kernels import kernel_list

RNG = np.random.default_rng(0)
FORMATS = ("int8", "int16", "float")
LAYERS = ("conv", "linear", "float_conv", "float_linear")
BORDERS = ("quantize", "split_quantize", "fake_quantize")


@dataclass(frozen=True)
class Case:
    """Two convolutions over `size` x `size` pixels or, of size 0, products of `rows` rows."""

    name: str
    inputs: int
    out: int
    size: int = 0
    kernel: int = 1
    rows: int = 0
    groups: int = 1

    @property
    def products(self) -> int:
        return 2 * (self.rows or self.size**2) * self.inputs * self.out * self.kernel**2 // self.groups

    @property
    def elements(self) -> int:
        return 2 * (self.rows or self.size**2) * (self.inputs + self.out)


CASES = [
    Case("1x1 24-144 @56", 24, 144, 56),
    Case("1x1 16-96 @112", 16, 96, 112),
    Case("1x1 40-240 @28", 40, 240, 28),
    Case("1x1 112-672 @14", 112, 672, 14),
    Case("1x1 192-1152 @7", 192, 1152, 7),
    Case("1x1 64-256 @56", 64, 256, 56),
    Case("1x1 256-1024 @14", 256, 1024, 14),
    Case("3x3 32-32 @112", 32, 32, 112, 3),
    Case("3x3 64-64 @56", 64, 64, 56, 3),
    Case("3x3 128-128 @28", 128, 128, 28, 3),
    Case("3x3 256-256 @14", 256, 256, 14, 3),
    Case("3x3 512-512 @7", 512, 512, 7, 3),
    Case("rows 128, 384-1536", 384, 1536, rows=128),
    Case("rows 128, 768-3072", 768, 3072, rows=128),
]
DEPTHWISE = [
    Case("depthwise 3x3 144 @56", 144, 144, 56, 3, groups=144),
    Case("depthwise 5x5 240 @28", 240, 240, 28, 5, groups=240),
    Case("depthwise 3x3 672 @14", 672, 672, 14, 3, groups=672),
]


def model(case: Case, format: str) -> onnx.ModelProto:
    """The case with pairs of a format, which are symmetric."""
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []

    def hold(array: np.ndarray) -> str:
        initializers.append(numpy_helper.from_array(array, f"c{len(initializers)}"))
        return initializers[-1].name

    def node(op: str, *inputs: str, **output: object) -> str:
        name = f"n{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name=name, **output))
        return name

    def pair(x: str, reach: float) -> str:
        if format == "float":
            return x
        step = hold(np.float32(reach / np.iinfo(format).max)), hold(np.array(0, format))
        return node("DequantizeLinear", node("QuantizeLinear", x, *step), *step)

    def weight(*shape: int) -> str:
        codes = np.clip(np.rint(RNG.normal(0, 25, shape)), -127, 127)
        scale = np.full(shape[0], 1 / (25 * np.sqrt(np.prod(shape[1:]))), np.float32)
        if format == "float":
            return hold((codes * scale.reshape(-1, *[1] * (len(shape) - 1))).astype(np.float32))
        zeros = hold(np.zeros(shape[0], np.int8))
        return node("DequantizeLinear", hold(codes.astype(np.int8)), hold(scale), zeros, axis=0)

    shape = [case.rows, case.inputs] if case.rows else [1, case.inputs, case.size, case.size]
    x = "x"
    for channels, out in ((case.inputs, case.out), (case.out, case.inputs)):
        x = pair(x, 4.0)
        if case.rows:
            x = node("Gemm", x, weight(out, channels), hold(np.zeros(out, np.float32)), transB=1)
        else:
            w = weight(out, channels // case.groups, case.kernel, case.kernel)
            bias = hold(np.zeros(out, np.float32))
            x = node("Conv", x, w, bias, pads=[case.kernel // 2] * 4, group=case.groups)
    y = node("Identity", x if format == "int16" else pair(x, 4.0))
    graph = helper.make_graph(
        nodes, case.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)], initializers,
    )  # fmt: skip
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(result)


def seconds(engine: intact.Engine, feeds: dict[str, np.ndarray]) -> tuple[float, str]:
    """Of the layers and the borders in front of them; and what ran."""
    chosen, kinds = 0.0, []
    for timing in engine.profile(feeds, runs=5).timings:
        if timing.kind in LAYERS or timing.kind in BORDERS:
            chosen += timing.seconds
            kinds.append(timing.kind)
    return chosen, " ".join(kinds)


def run(cases: list[Case], rounds: int) -> np.ndarray:
    """Prints and returns the seconds of each case and format."""
    result = np.full((len(cases), len(FORMATS)), np.inf)
    for i, case in enumerate(cases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is not quantized
            engines = [intact.compile(model(case, format), threads=1) for format in FORMATS]
        shape = [case.rows, case.inputs] if case.rows else [1, case.inputs, case.size, case.size]
        feeds = {"x": RNG.standard_normal(shape).astype(np.float32)}
        kinds = [""] * len(FORMATS)
        for _ in range(rounds):
            for k, engine in enumerate(engines):
                chosen, kinds[k] = seconds(engine, feeds)
                result[i, k] = min(result[i, k], chosen)
        times = " ".join(f"{1e6 * t:9.1f}" for t in result[i])
        ratios = " ".join(f"{result[i, k] / result[i, 0]:6.2f}" for k in (1, 2))
        print(f"{case.name:24} {times}  {ratios}   {kinds[1]}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    chosen = [k.name for k in kernel_list() if k.chosen and k.family in ("gemm", "float_gemm")]
    print(f"{', '.join(chosen)}\n{'us':24} {'int8':>9} {'16 bits':>9} {'float':>9}  16/int8 float/int8")
    result = run(CASES, options.rounds)
    terms = np.array([[case.products, case.elements] for case in CASES], float)
    product = 0.0
    for k, format in enumerate(FORMATS):
        weights = 1 / result[:, k : k + 1]  # relative errors count
        a, b = np.linalg.lstsq(terms * weights, np.ones(len(CASES)), rcond=None)[0]
        product = product or a
        print(f"{format:8} a product {a / product:6.2f}, an element {b / product:6.1f}")
    run(DEPTHWISE, options.rounds)


if __name__ == "__main__":
    main()
