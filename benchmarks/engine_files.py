"""The networks that the engine's benchmarks run, as every engine wants them: made once, kept in a folder.

For each of the four nets of the shared data's nets.py (random weights, BatchNorm calibrated on noise):

    <net>.onnx           float, open batch size
    <net>.int8.onnx      by INTact, int8 with Q/DQ pairs
    <net>.plan           INTact's engine of that
    <net>.ort-qdq.onnx, <net>.ort-qop.onnx    by ONNX Runtime: uint8 activations, int8 weights, per channel
    <net>.nncf.xml       by NNCF for OpenVINO, by an interpreter that has both (--peer-python)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from peers import quantize_nncf, quantize_onnxruntime

NETS = ("resnet18", "resnet50", "mobilenetv2", "bert")
BATCHES = 8


def shape_of(net: str) -> tuple[int, ...]:
    """Of one input."""
    return (128, 768) if net == "bert" else (3, 224, 224)


def noise(net: str, count: int, seed: int = 0) -> list[np.ndarray]:
    """Batches of one input each: the nets know nothing but noise."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((1, *shape_of(net)), dtype=np.float32) for _ in range(count)]


def shared_nets() -> Path | None:
    """The folder of nets.py; None where INTACT_SHARED names none."""
    shared = Path(os.environ.get("INTACT_SHARED", ""))
    return shared if (shared / "nets.py").is_file() else None


def export(net: str, path: Path) -> None:
    """The float network."""
    import torch

    sys.path.insert(0, str(shared_nets()))
    import nets

    batch = torch.export.Dim("batch")
    torch.onnx.export(
        nets.make(net), (torch.zeros(2, *shape_of(net)),), path, dynamo=True, external_data=False,
        verbose=False, input_names=["input"], output_names=["output"], dynamic_shapes=({0: batch},),
    )  # fmt: skip


def by_intact(net: str, folder: Path) -> None:
    import intact

    data = [{"input": batch} for batch in noise(net, BATCHES)]
    model = intact.quantize(
        folder / f"{net}.onnx", data, method="max", bias_correction=False, equalization=False, progress=False
    )
    model.save(folder / f"{net}.int8.onnx")


def plan(net: str, folder: Path) -> None:
    import intact

    intact.compile(folder / f"{net}.int8.onnx").save(folder / f"{net}.plan")


def by_onnxruntime(net: str, folder: Path) -> None:
    outputs = {"QDQ": folder / f"{net}.ort-qdq.onnx", "QOperator": folder / f"{net}.ort-qop.onnx"}
    quantize_onnxruntime(folder / f"{net}.onnx", outputs, [{"input": batch} for batch in noise(net, BATCHES)])


def by_nncf(net: str, folder: Path) -> None:
    quantize_nncf(
        folder / f"{net}.onnx", folder / f"{net}.nncf.xml", [{"input": x} for x in noise(net, BATCHES)],
        transformer=net == "bert",
    )  # fmt: skip


STAGES = (
    (".onnx", lambda net, folder: export(net, folder / f"{net}.onnx"), False),
    (".int8.onnx", by_intact, False),
    (".plan", plan, False),
    (".ort-qop.onnx", by_onnxruntime, False),
    (".nncf.xml", by_nncf, True),
)
"""Stages in order, and whether they need the peers' interpreter."""


def prepare(net: str, folder: Path, peer_python: str, expected: tuple[str, ...] | None = None) -> None:
    """Make the files of a net that are not there yet, each in a process of its own."""
    for suffix, _, peer in STAGES:
        if (folder / f"{net}{suffix}").exists() or (expected is not None and suffix not in expected):
            continue
        python = peer_python if peer else sys.executable
        code = [python, __file__, "--net", net, "--folder", str(folder), "--stage", suffix]
        done = subprocess.run(code, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            print(f"{net}{suffix}: not made: {last}", file=sys.stderr, flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every engine benchmark."""
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with openvino and nncf")
    parser.add_argument("--folder", type=Path, help="keep the networks there, and take them from there")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=NETS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser)
    parser.add_argument("--net", choices=NETS, help=argparse.SUPPRESS)
    parser.add_argument("--stage", choices=[suffix for suffix, *_ in STAGES], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage:
        {suffix: make for suffix, make, _ in STAGES}[args.stage](args.net, args.folder)
        return
    if shared_nets() is None or args.folder is None:
        print("benchmarks/engine_files.py: no --folder, or no nets.py in INTACT_SHARED; nothing done")
        return
    for net in args.nets:
        prepare(net, args.folder, args.peer_python)


if __name__ == "__main__":
    main()
