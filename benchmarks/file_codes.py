"""Does the engine have the codes of the Q/DQ file, all of them, from the first layer to the last?

    INTACT_SHARED=<the shared data> python benchmarks/file_codes.py [FILE DATA.npy ...]

The file runs as a whole in INTact's engine and in ONNX Runtime with optimizations off. What every
QuantizeLinear makes is an output of both. Without arguments: the CIFAR-10 networks, quantized with 512
training images, on the 10,000 test images (`--images`). Otherwise pairs of a Q/DQ file and its inputs.

ONNX Runtime adds the terms of a convolution in an order of its own. Sums are exact in float32 where scales
are short, up to 2^16 steps, and biases lie midway between two codes (numerics, N9): then every code is equal.
Targets: none differs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

import intact

BATCH = 100


def with_codes(path: Path) -> onnx.ModelProto:
    """The model of a file, with all codes among its outputs."""
    model = onnx.load(path)
    for node in list(model.graph.node):
        if node.op_type == "QuantizeLinear":
            zero = next(i for i in model.graph.initializer if i.name == node.input[2])
            info = onnx.helper.make_tensor_value_info(node.output[0], zero.data_type, None)
            model.graph.output.append(info)
    return model


def count(name: str, path: Path, images: np.ndarray) -> None:
    """Print how many codes differ, and in which tensor first."""
    model = with_codes(path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    engine = intact.compile(model, threads=1)
    outputs = [output.name for output in session.get_outputs()]
    compared, differing, answers = 0, dict.fromkeys(outputs, 0), 0
    for first in range(0, len(images), BATCH):
        feeds = {session.get_inputs()[0].name: images[first : first + BATCH]}
        file, ours = session.run(outputs, feeds), engine.run(feeds)
        answers += int((file[0].argmax(-1) != ours[outputs[0]].argmax(-1)).sum())
        for output, theirs in zip(outputs, file, strict=True):
            compared += theirs.size
            differing[output] += int((theirs != ours[output]).sum())
    wrong = [f"{name} {differing[name]}" for name in (*outputs[1:], outputs[0]) if differing[name]]
    print(
        f"{name}: {len(images)} inputs, {compared:,} codes and outputs, {sum(differing.values())} differ,"
        f" {answers} top-1 answers; {'first: ' + wrong[0] if wrong else 'every one is equal'}",
        flush=True,
    )


def cifar(shared: Path, net: str, images: int, folder: Path) -> None:
    """One of the CIFAR-10 networks."""
    from cifar import Images
    from onnx_cifar import export

    export(net, shared / "models" / f"cifar10_{net}.safetensors", folder / f"{net}.onnx")
    calibration = Images(shared / "data" / "cifar10_train.npz", 512).x.numpy()
    model = intact.quantize(folder / f"{net}.onnx", calibration, batch_size=64, progress=False)
    model.save(folder / f"{net}.int8.onnx")
    count(net, folder / f"{net}.int8.onnx", Images(shared / "data" / "cifar10_test.npz", images).x.numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="pairs: a Q/DQ file, and an array of inputs")
    parser.add_argument("--images", type=int, default=10_000)
    args = parser.parse_args()
    for file, data in zip(args.files[::2], args.files[1::2], strict=True):
        count(file.stem, file, np.load(data))
    if not args.files:
        with tempfile.TemporaryDirectory() as folder:
            for net in ("resnet20", "resnet56"):
                cifar(Path(os.environ["INTACT_SHARED"]), net, args.images, Path(folder))


if __name__ == "__main__":
    main()
