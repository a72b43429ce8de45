"""CIFAR-10 networks through the command line: float ONNX in, Q/DQ ONNX out, 10,000 test images.

    INTACT_SHARED=<the shared data> python benchmarks/onnx_cifar.py --model resnet20 resnet56

Exports each network float, runs `intact quantize` with a folder of 512 images of the train file (no labels),
and both files in ONNX Runtime with its optimizations off. Prints top-1 of both, how many answers agree, the
layers that `intact explain` finds, and what `intact check --target tensorrt` says of one for that profile.
Further arguments go to `intact quantize`, for example `--method entropy` or `--profile tensorrt`.

Targets: top-1 within 0.1 point of float; every residual block one fused Conv+Add+Relu; check passes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from cifar import EVALUATION_BATCH, NETS, Images
from packed_images import read_packed_images

from intact.graph import Session

BLOCKS = {"resnet20": 9, "resnet56": 27}
CLOSE = 0.1  # points of top-1


def export(net: str, weights: Path, path: Path) -> None:
    """The float network as ONNX, with an open batch size."""
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        NETS[net](weights), (torch.zeros(2, 3, 32, 32),), path, dynamo=True, external_data=False,
        verbose=False, input_names=["image"], output_names=["logits"], dynamic_shapes=({0: batch},),
    )  # fmt: skip


def write_folder(packed: Path, first: int, count: int, folder: Path) -> None:
    """Images `first`, `first + 1`, ... of a packed file as PNG files: the same pixels."""
    folder.mkdir()
    for i, image in enumerate(read_packed_images(packed, count, first), first):
        image.save(folder / f"{i:05d}.png")


def command(*arguments: str | Path, allowed: tuple[int, ...] = (0,)) -> tuple[int, str]:
    """Exit status and output of one `intact` command, as a user runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "intact", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode not in allowed:
        raise SystemExit(f"intact {arguments[0]}: exit status {done.returncode}\n{done.stderr.strip()}")
    return done.returncode, done.stdout


def answers(path: Path, test: Images, threads: int) -> np.ndarray:
    """The classes that the file gives the images, in ONNX Runtime without optimizations."""
    session = Session(path.read_bytes(), threads=threads)
    batches = (x.numpy() for x in test.x.split(EVALUATION_BATCH))
    return np.concatenate([session.run({"image": x})["logits"].argmax(1) for x in batches])


def explain(path: Path, profile: list[str], blocks: int) -> str:
    """One line on the layers: how many in int8 and fused how, and each that is in float."""
    _, text = command("explain", path, "--json", *profile)
    rows = json.loads(text)["layers"]
    fused = Counter(row["fused"] for row in rows if row["precision"] == "int8")
    remaining = [f"{row['layer']}: {row['reason']}" for row in rows if row["precision"] == "float"]
    result = fused["Conv+Add+Relu"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in fused.most_common())
    lines = [f"int8: {kinds}", *(f"float: {line}" for line in remaining)]
    lines.append(f"residual blocks as one Conv+Add+Relu: {result} of {blocks}{verdict(result == blocks)}")
    return "\n  ".join(lines)


def check(path: Path) -> str:
    status, text = command("check", path, "--target", "tensorrt", "--json", allowed=(0, 1))
    result = json.loads(text)
    counts = f"{result['errors']} errors, {result['warnings']} warnings"
    lines = [f"{f['severity']} {f['node']} {f['rule']}: {f['message']}" for f in result["findings"]]
    return "\n  ".join(
        [f"check --target tensorrt: exit status {status}, {counts}{verdict(not status)}", *lines]
    )


def verdict(met: bool) -> str:
    return "" if met else "  <- MISSED"


def measure(net: str, shared: Path, test: Images, options: argparse.Namespace, more: list[str]) -> None:
    """Print everything about one network."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plain, out, images = folder / "float.onnx", folder / "int8.onnx", folder / "images"
        export(net, shared / "models" / f"cifar10_{net}.safetensors", plain)
        reference = answers(plain, test, options.threads)
        before = top1(reference, test)
        print(f"\n{net}: float {before:.2f}%, {plain.stat().st_size:,} bytes", flush=True)
        profile = ["--profile", more[more.index("--profile") + 1]] if "--profile" in more else []
        for number in range(options.sets):
            images = folder / f"set{number}"
            packed = shared / "data" / "cifar10_train.npz"
            write_folder(packed, number * options.images, options.images, images)
            start = time.perf_counter()
            _, text = command(
                "quantize", plain, "--data", images, "-o", out, "--no-progress", "--json", *more
            )
            seconds = time.perf_counter() - start
            output = json.loads(text)
            got = answers(out, test, options.threads)
            after = top1(got, test)
            met = verdict(abs(after - before) <= CLOSE or after > before)
            agree = 100 * float((got == reference).mean())
            noise = ", ".join(f"{db:.1f} dB" for db in output["sqnr_db"].values())
            print(
                f"  set {number} ({options.images} images): int8 {after:.2f}% ({after - before:+.2f}){met}; "
                f"{agree:.2f}% of answers as in float; SQNR {noise}; {seconds:.0f} s; "
                f"{out.stat().st_size:,} bytes",
                flush=True,
            )
        print(f"  {explain(out, profile, BLOCKS[net])}")
        theirs = ["--profile", "tensorrt"]  # ours puts zero points where they help, which TensorRT refuses
        command("quantize", plain, "--data", images, "-o", out, "--no-progress", "--json", *theirs)
        print(f"  {check(out)}", flush=True)


def top1(got: np.ndarray, test: Images) -> float:
    return 100 * float((got == test.y.numpy()).mean())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", choices=NETS, default=["resnet20"])
    parser.add_argument("--images", type=int, default=512, help="calibration images in one set")
    parser.add_argument("--sets", type=int, default=1, help="disjoint calibration sets")
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    options, more = parser.parse_known_args(arguments)
    shared = Path(os.environ.get("INTACT_SHARED", ""))
    if not (shared / "data" / "cifar10_test.npz").is_file():
        print(
            "benchmarks/onnx_cifar.py: INTACT_SHARED names no folder with data/cifar10_test.npz; nothing done"
        )
        return
    test = Images(shared / "data" / "cifar10_test.npz", options.test_images)
    for net in options.model:
        measure(net, shared, test, options, more)


if __name__ == "__main__":
    main()
