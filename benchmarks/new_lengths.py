"""The first run of a sequence length that an engine has not seen, beside ONNX Runtime's.

    python benchmarks/new_lengths.py
    python benchmarks/new_lengths.py --model minilm.int8.onnx       # an ONNX file with free sizes, besides

CPU time on one thread, medians. A chain of layers, plain and with the shape arithmetic of exporters (Shape
and Expand), and an attention with positions and masks of the length. Of a file, its last free size is the
length, every other is 1, and inputs are ones; free heights and widths of images are 32 to 192 pixels, another
pair for each length. For every network: the first run of lengths 20 to 43 in turn;
their second run, which finds what the first one made; and both in ONNX Runtime. Ratio: of first runs.

Targets: a new length of 40 layers at most 1 ms, with Shape and Expand too.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper, parser

import intact

LENGTHS = range(20, 44)
Feeds = dict[str, np.ndarray]

ATTENTION = """
attention (int64[batch, words] ids) => (float[batch, words, 64] y) {
    e = Gather (table, ids)  s = Shape (ids)  n = Gather (s, one)  b = Gather (s, zero)
    row = Range (zero, n, one)  p = Gather (positions, row)  x = Add (e, p)
    q = MatMul (x, wq)  k = MatMul (x, wk)
    r1 = Unsqueeze (row, last)  r2 = Unsqueeze (row, first)
    later = Greater (r2, r1)  far = Cast <to = 1> (later)  mask = Mul (far, low)
    bs = Unsqueeze (b, first)  ns = Unsqueeze (n, first)  to = Concat <axis = 0> (bs, ns, heads, depth)
    q4 = Reshape (q, to)  qt = Transpose <perm = [0, 2, 1, 3]> (q4)
    k4 = Reshape (k, to)  kt = Transpose <perm = [0, 2, 3, 1]> (k4)
    a = MatMul (qt, kt)  masked = Add (a, mask)  w = Softmax <axis = -1> (masked)  o = MatMul (w, qt)
    ot = Transpose <perm = [0, 2, 1, 3]> (o)
    back = Concat <axis = 0> (bs, ns, width)  y = Reshape (ot, back)
}"""


def reals(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) / 8).astype(np.float32)


def chain(layers: int, *, shaped: bool) -> onnx.ModelProto:
    """Embeddings and so many layers; with the Shape and Expand of learned positions, or without."""
    weights = {"table": reals(50, 64), "pos": reals(1, 1, 64)}
    nodes = [helper.make_node("Gather", ["table", "ids"], ["e"])]
    if shaped:
        nodes += [helper.make_node("Shape", ["e"], ["s"]), helper.make_node("Expand", ["pos", "s"], ["p"])]
    nodes += [helper.make_node("Add", ["e", "p" if shaped else "pos"], ["h0"])]
    for i in range(layers):
        weights |= {f"w{i}": reals(64, 64), f"b{i}": np.zeros(64, np.float32)}
        nodes += [
            helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [f"h{i + 1}"]),
        ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "words"])
    y = helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, ["batch", "words", 64])
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "chain", [ids], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attention() -> onnx.ModelProto:
    """One attention with a causal mask."""
    result = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{ATTENTION}')
    weights = {
        "table": reals(50, 64), "positions": reals(64, 64), "wq": reals(64, 64), "wk": reals(64, 64),
        "zero": np.array(0), "one": np.array(1), "first": np.array([0]), "last": np.array([1]),
        "heads": np.array([4]), "depth": np.array([16]), "width": np.array([64]), "low": np.float32(-1e4),
    }  # fmt: skip
    result.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items())
    return result


def networks(files: list[Path]) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Names and models."""
    yield "40 layers", chain(40, shaped=False)
    yield "40 layers, Shape and Expand", chain(40, shaped=True)
    yield "attention with a mask", attention()
    for file in files:
        yield file.name, onnx.load(file)


def feeds(model: onnx.ModelProto, length: int) -> Feeds:
    """Ones for every input that is no weight."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in constants]
    free = [d.dim_param for info in inputs for d in info.type.tensor_type.shape.dim if d.dim_param]
    image = {2: 32 * (1 + length // 6 % 6), 3: 32 * (1 + length % 6)}
    result = {}
    for info in inputs:
        kind = info.type.tensor_type
        dims, sizes = kind.shape.dim, {**dict.fromkeys(free, 1), free[-1]: length}
        pixels = image if len(dims) == 4 and kind.elem_type == TensorProto.FLOAT else {}
        shape = [
            d.dim_value if d.HasField("dim_value") else pixels.get(axis, sizes.get(d.dim_param, 1))
            for axis, d in enumerate(dims)
        ]
        result[info.name] = np.ones(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return result


def measure(run: Callable[[Feeds], object], model: onnx.ModelProto) -> tuple[float, float]:
    """Median milliseconds of CPU time of the first and the second run of every length."""
    run(feeds(model, 8))
    times: list[list[float]] = []
    for _ in range(2):
        times.append([])
        for length in LENGTHS:
            inputs = feeds(model, length)
            start = time.process_time()
            run(inputs)
            times[-1].append(1e3 * (time.process_time() - start))
    first, second = map(np.median, times)
    return float(first), float(second)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--model", type=Path, nargs="*", default=[])
    warnings.simplefilter("ignore")
    print("| network | first run, ms | second | ONNX Runtime's first | its second | ratio |")
    print("|---|---|---|---|---|---|")
    for name, model in networks(options.parse_args().model):
        engine = intact.compile(model, threads=1)
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 1
        session = ort.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])
        first, second = measure(engine.run, model)
        theirs, again = measure(lambda inputs, session=session: session.run(None, inputs), model)
        print(f"| {name} | {first:.2f} | {second:.2f} | {theirs:.2f} | {again:.2f} | {first / theirs:.1f} |")


if __name__ == "__main__":
    main()
