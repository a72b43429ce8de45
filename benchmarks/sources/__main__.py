"""``python -m intact.torch -m sources NAME FOLDER``: one source, and if its file answers as its module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from sources import SOURCES
from sources.common import first

LEAST_DB = 40.0
"""Least agreement of a file with its module: sums in another order differ, and codes at boundaries do."""


def export(model: Any, example: Any, file: str | None) -> str:
    """The file that a source wrote; else one written as the toolkit's guide says."""
    from pytorch_quantization import nn as quant_nn

    if file is not None:
        return file
    quant_nn.TensorQuantizer.use_fb_fake_quant = True
    torch.onnx.export(model, example, "model.onnx", opset_version=17, dynamo=False)
    quant_nn.TensorQuantizer.use_fb_fake_quant = False
    return "model.onnx"


def decibels(expected: Any, got: Any) -> float:
    """Return the ratio of the signal to the difference, in decibels."""
    noise = float(np.mean((expected - got) ** 2))
    return 10 * float(np.log10(max(float(np.mean(expected**2)), 1e-30) / max(noise, 1e-30)))


def main() -> None:
    from cuda_as_cpu import read_as_cpu

    read_as_cpu()
    model, example, file = SOURCES[sys.argv[1]](Path(sys.argv[2]))
    from pytorch_quantization import nn as quant_nn

    inputs = example if isinstance(example, tuple) else (example,)
    model.eval()
    quantizers = [q for q in model.modules() if isinstance(q, quant_nn.TensorQuantizer) and not q._disabled]
    without = sum(q.amax is None for q in quantizers)
    with torch.no_grad():
        expected = first(model(*inputs)).numpy()
    path = export(model, example, file)
    pairs = sum(node.op_type == "DequantizeLinear" for node in onnx.load(path).graph.node)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)}
    result = decibels(expected, session.run(None, feed)[0])
    output = f"{len(quantizers)} quantizers ({without} without a range), {pairs} pairs, {result:.0f} dB"
    print(output)
    sys.exit(None if pairs and result >= LEAST_DB else output)


if __name__ == "__main__":
    main()
