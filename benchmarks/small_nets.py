"""A small ViT and a small detector in int8 at the defaults, beside ONNX Runtime's and NNCF's defaults.

    INTACT_SHARED=<the shared data> python benchmarks/small_nets.py --net vit detector

The networks and their weights are those of `small_models`; the detector's one output holds boxes in pixels
and probabilities of classes. 512 inputs calibrate: of CIFAR-10's train file, or scenes drawn from digits
that no test scene has. Measured: top-1 of all 10,000 test images, and mAP (IoU 0.5 to 0.95) of 1,000 scenes.

Rows: the float file in ONNX Runtime; `intact.quantize` of that file, run by the engine; graph mode, as a
module and its exported file in the engine; `quantize_static` (uint8 activations, int8 weights per channel)
and NNCF (the ViT is called a transformer), each in its own runtime, where they are installed. Then the
layers that stay in float, and for the detector how far boxes are from the float ones.

Targets: the ViT within 0.5 point of float, the detector within 1% of its mAP, both ways.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from cifar import Images, shared_folder
from peers import quantize_nncf, quantize_onnxruntime
from small_models.networks import has_weights, load
from small_models.scenes import mean_average_precision, scenes
from torch import Tensor, nn

import intact
import intact.torch

BATCH = 100
Run = Callable[[np.ndarray], np.ndarray]
Row = tuple[str, Run]


class Task:
    """One network, its calibration batches, its test inputs and its metric."""

    def __init__(self, name: str, options: argparse.Namespace, shared: Path) -> None:
        self.name, self.model = name, load(name)
        if name == "vit":
            test = Images(shared / "data" / "cifar10_test.npz", options.test_images)
            self.calibration: Tensor = Images(shared / "data" / "cifar10_train.npz", options.images).x
            self.x, labels = test.x, test.y.numpy()
            self.metric: Run = lambda out: 100 * float((out.argmax(1) == labels).mean())  # type: ignore[assignment,return-value]
        else:
            truth = scenes(options.scenes, 3, train=False)
            self.calibration = scenes(options.images, 4, train=True).x
            self.x = truth.x
            self.metric = lambda out: mean_average_precision(out, truth)  # type: ignore[assignment,return-value]

    def outputs(self, run: Run) -> np.ndarray:
        return np.concatenate([run(part.numpy()) for part in self.x.split(BATCH)])


def export(model: nn.Module, example: Tensor, path: Path) -> None:
    """The float network as ONNX, with an open batch size."""
    torch.onnx.export(
        model, (example,), path, dynamo=True, external_data=False, verbose=False, input_names=["x"],
        output_names=["y"], dynamic_shapes=({0: torch.export.Dim("batch")},),
    )  # fmt: skip


def by_onnxruntime(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def by_openvino(path: Path) -> Run:
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": 1})
    return lambda x: compiled(x)[0]


def by_module(model: nn.Module) -> Run:
    @torch.no_grad()
    def run(x: np.ndarray) -> np.ndarray:
        return model(torch.from_numpy(x)).numpy()

    return run


def by_engine(path: Path) -> Run:
    return intact.compile(path, threads=1)


def ours(task: Task, plain: Path, folder: Path) -> Iterator[Row]:
    """By the file and by graph mode, at the defaults."""
    batches = task.calibration.split(BATCH)
    result = intact.quantize(plain, [{"x": batch.numpy()} for batch in batches], progress=False)
    result.save(folder / "ours.onnx")
    rows = [row for row in result.explain() if row["precision"] == "float"]
    print("\n".join(f"  float: {row['layer']}: {row['reason']}" for row in rows), flush=True)
    yield "intact, file", by_engine(folder / "ours.onnx")
    module = intact.torch.quantize(task.model, batches, progress=False).model
    yield "intact, graph mode", by_module(module)
    intact.torch.export(module, task.calibration[:2], folder / "module.onnx", dynamic_batch=True)
    yield "its file in the engine", by_engine(folder / "module.onnx")


def peers(task: Task, plain: Path, folder: Path) -> Iterator[Row]:
    feeds = [{"x": x[None].numpy()} for x in task.calibration]
    quantize_onnxruntime(plain, {"QDQ": folder / "ort.onnx"}, feeds)
    yield "ONNX Runtime", by_onnxruntime(folder / "ort.onnx")
    if find_spec("nncf") and find_spec("openvino"):
        quantize_nncf(plain, folder / "nncf.xml", feeds, transformer=task.name == "vit")
        yield "NNCF, OpenVINO", by_openvino(folder / "nncf.xml")


def measure(task: Task, options: argparse.Namespace) -> None:
    """Print the rows of one network."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plain = folder / "float.onnx"
        export(task.model, task.calibration[:2], plain)
        expected = task.outputs(by_onnxruntime(plain))
        reference = task.metric(expected)
        print(f"{task.name:10s} {'float':24s} {reference:7.2f}", flush=True)
        for kind in (ours, peers) if options.peers else (ours,):
            for label, run in kind(task, plain, folder):
                got = task.outputs(run)
                score = task.metric(got)
                line = f"{task.name:10s} {label:24s} {score:7.2f} {score - reference:+6.2f}"
                line += f" {100 * (score / reference - 1):+6.2f}%"
                if task.name == "detector":
                    sure = expected[:, 4:].max(1, keepdims=True) > 0.3
                    distance = np.abs(got[:, :4] - expected[:, :4])[np.repeat(sure, 4, 1)]
                    line += f"  boxes {distance.mean():.2f} pixels off"
                print(line, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--net", nargs="+", choices=("vit", "detector"), default=["vit", "detector"])
    parser.add_argument("--images", type=int, default=512, help="inputs that calibrate")
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    options = parser.parse_args(arguments)
    shared = shared_folder("small_nets.py")
    if shared is None:
        return
    torch.set_num_threads(1)
    for name in filter(has_weights, options.net):
        measure(Task(name, options, shared), options)


if __name__ == "__main__":
    main()
