"""Counts NVIDIA's TensorRT samples that run as they are: each by itself, on host memory, on a small model.

    git clone https://github.com/NVIDIA/TensorRT new
    git clone --branch v8.6.1 https://github.com/NVIDIA/TensorRT old
    python benchmarks/trt_samples.py new old [--only NAME] [--path EXTRA]

Nothing of them is kept here. The models and pictures that they ask for are made (`samples/models.py`): they
have the inputs, outputs and names of the real ones, few layers and random weights. A sample is right where it
ends without an error in the log and prints what it prints when all is well; what recognizes a picture must
recognize those; the engine that one builds must answer as ONNX Runtime does, to 20 dB in int8. What cannot
run on a CPU is in a table of docs/how-to/tensorrt-scripts-on-a-cpu.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import intact.trt as trt

HERE = Path(__file__).parent
OLD, NEW = "8.x", "10.x"
ONNX = "-o {{data}}/{0}.onnx -e {{data}}/{0}.engine "
PICTURES = "-i {data}/pictures"
INT8 = (
    "-p int8 --calib_input {data}/pictures --calib_cache {data}/{name}.cache --calib_num_images 3 "
    "--calib_batch_size 1"
)
LEAST_DB = 20.0


@dataclass(frozen=True)
class Sample:
    """A script below samples/python, its arguments, and a pattern in what it prints when all is well.

    Without a pattern it builds an engine (-e) of a model (-o), and the two must answer alike.
    """

    dialect: str
    script: str
    arguments: str
    wanted: str


SAMPLES = (
    Sample(NEW, "introductory_parser_samples/onnx_resnet50.py", "-d {data}", "Correctly recognized"),
    Sample(NEW, "network_api_pytorch_mnist/sample.py", "", r"Test Case: (\d)\s+Prediction: \1"),
    Sample(NEW, "simple_progress_monitor/simple_progress_monitor.py", "-d {data}", "Correctly recognized"),
    Sample(NEW, "stream_writer/build.py", "", "Engine deserialized successfully"),
    Sample(NEW, "sample_weight_stripping/build_engines.py", "-d {data}", "saved normal_engine.trt"),
    Sample(
        NEW, "sample_weight_stripping/refit_engine_and_infer.py", "-d {data}",
        "MSE of the final layer output is 0.0",
    ),
    Sample(NEW, "engine_refit_onnx_bidaf/build_and_refit_engine.py", "", "Passed"),
    Sample(NEW, "engine_refit_onnx_bidaf/build_and_refit_engine.py", "-l CPU", "Passed"),
    Sample(NEW, "dds_faster_rcnn/build_engine.py", ONNX.format("rcnn"), ""),
    Sample(
        NEW, "dds_faster_rcnn/infer.py", "-e {data}/rcnn.engine -o {data}/rcnn " + PICTURES, "Finished"
    ),
    Sample(OLD, "introductory_parser_samples/onnx_resnet50.py", "-d {data}", "Correctly recognized"),
    Sample(OLD, "network_api_pytorch_mnist/sample.py", "", r"Test Case: (\d)\s+Prediction: \1"),
    Sample(OLD, "engine_refit_onnx_bidaf/build_and_refit_engine.py", "", "Passed"),
    Sample(OLD, "engine_refit_onnx_bidaf/build_and_refit_engine.py", "-l CPU", "Passed"),
    Sample(OLD, "yolov3_onnx/onnx_to_tensorrt.py", "", "Saved image with bounding boxes"),
    Sample(OLD, "efficientnet/build_engine.py", ONNX.format("classes") + INT8, ""),
    Sample(OLD, "efficientnet/infer.py", "-e {data}/classes.engine " + PICTURES, r"(?m)png\t\d+\t"),
    Sample(OLD, "efficientdet/build_engine.py", ONNX.format("boxes") + INT8, ""),
    Sample(OLD, "efficientdet/infer.py", "-e {data}/boxes.engine -o {data}/boxes " + PICTURES, "Finished"),
    Sample(
        OLD, "tensorflow_object_detection_api/build_engine.py",
        "-o {data}/boxes.onnx -e {data}/tf.engine " + INT8, "",
    ),
    Sample(
        OLD, "tensorflow_object_detection_api/infer.py", "-e {data}/tf.engine -o {data}/tf " + PICTURES,
        "Finished",
    ),
    Sample(OLD, "detectron2/build_engine.py", ONNX.format("masks") + "-c none " + INT8, ""),
    Sample(
        OLD, "detectron2/infer.py", "-e {data}/masks.engine -c none -o {data}/masks " + PICTURES, "Finished"
    ),
)  # fmt: skip


def run(sample: Sample, root: Path, data: Path, paths: list[str], seconds: float) -> tuple[str, str]:
    """Run a sample; return its result ("right", "wrong", "failed", "late"), and the last line printed."""
    script = root / "samples" / "python" / sample.script
    arguments = sample.arguments.format(data=data, name=script.parent.name).split()
    environment = os.environ | {"INTACT_TRT_DIALECT": sample.dialect, "TRT_DATA_DIR": str(data)}
    environment["PYTHONPATH"] = os.pathsep.join(
        [*paths, str(HERE / "samples"), os.environ.get("PYTHONPATH", "")]
    )
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "intact.trt", script.name, *arguments],
            cwd=script.parent, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "late", f"longer than {seconds:.0f} s"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if "[TRT] [E]" in line]
    last = (errors or lines or [""])[-1]
    if done.returncode or errors:
        return "failed", last
    if not sample.wanted:
        return judge(Path(arguments[1]), Path(arguments[3]))
    return ("right" if re.search(sample.wanted, done.stdout + done.stderr) else "wrong"), last


def judge(model: Path, engine: Path) -> tuple[str, str]:
    """Compare an engine's outputs with ONNX Runtime's; return whether they agree, and the worst distance."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    built = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(engine.read_bytes())
    random, feeds = np.random.default_rng(0), {}
    for port in session.get_inputs():
        sizes = [n if isinstance(n, int) else 128 for n in port.shape]
        feeds[port.name] = random.uniform(0, 255, sizes).astype(np.float32)
    result, worst = built.engine.run(feeds), float("inf")
    for port, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        got = result[port.name]
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return "wrong", f"{port.name}: {got.dtype} {got.shape}, wanted {expected.dtype} {expected.shape}"
        if expected.dtype == np.float32:
            noise = max(float(np.mean((got - expected) ** 2)), 1e-30)
            worst = min(worst, 10 * float(np.log10(max(float(np.mean(expected**2)), 1e-30) / noise)))
    return ("right" if worst >= LEAST_DB else "wrong"), f"{worst:.0f} dB to ONNX Runtime"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("new", type=Path, help="a checkout of the last version")
    parser.add_argument("old", type=Path, help="a checkout of version 8.6.1")
    parser.add_argument("--only", default="", help="only scripts with this text")
    parser.add_argument("--path", action="append", default=[], help="folders for PYTHONPATH")
    parser.add_argument("--seconds", type=float, default=300.0, help="limit for one script")
    requested = parser.parse_args()
    roots = {NEW: requested.new.resolve(), OLD: requested.old.resolve()}
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        result, data = Path(folder), Path(folder) / "data"
        subprocess.run([sys.executable, str(HERE / "samples" / "models.py"), str(data)], check=True)
        for dialect, root in roots.items():
            shutil.copytree(root / "samples", result / dialect / "samples")
            for sample in {s.script: s for s in SAMPLES if s.dialect == dialect}.values():
                beside = data / "beside" / Path(sample.script).parent.name
                if beside.is_dir():
                    shutil.copytree(
                        beside, result / dialect / "samples" / "python" / Path(sample.script).parent,
                        dirs_exist_ok=True,
                    )  # fmt: skip
        for sample in SAMPLES:
            if requested.only in sample.script:
                state, last = run(sample, result / sample.dialect, data, requested.path, requested.seconds)
                counts[state] = counts.get(state, 0) + 1
                print(f"{state:<11}{sample.dialect:<6}{sample.script}  {last[:150]}", flush=True)
    print(f"{sum(counts.values())} samples: " + ", ".join(f"{n} {state}" for state, n in counts.items()))


if __name__ == "__main__":
    main()
