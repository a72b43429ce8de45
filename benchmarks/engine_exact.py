"""Is the engine the integer reference, on every code? And who else gives the file's answers?

    INTACT_SHARED=<the shared data> python benchmarks/engine_exact.py --peer-python <one with openvino, nncf>

For the CIFAR-10 networks: quantized by INTact with 512 training images, full 8 bits. Every tensor of the
engine is compared with the integer reference on the first `--images` test images. Then the answers of
everyone who runs this one file, on the same images, against its simulation: ONNX Runtime with optimizations
off. OpenVINO also with AVX2 alone, as on machines without VNNI, and with NNCF's own model of the float file.

For the four nets of nets.py: every tensor on `--inputs` inputs.

Targets: no code differs; the engine's answers equal the simulation's on at least 99.9% of the images.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import engine_files
import numpy as np

CIFAR = ("resnet20", "resnet56")
BATCH = 100
CLOSE = 99.9  # percent of answers


def cifar(net: str, shared: Path, folder: Path, peer_python: str) -> None:
    """The float file, INTact's int8 file and NNCF's model of a network, and its data."""
    import intact

    if not (folder / f"{net}.int8.onnx").exists():
        from onnx_cifar import export

        export(net, shared / "models" / f"cifar10_{net}.safetensors", folder / f"{net}.onnx")
        calibration = np.load(folder / "calibration.npy")
        model = intact.quantize(folder / f"{net}.onnx", calibration, batch_size=64, progress=False)
        model.save(folder / f"{net}.int8.onnx")
    if not (folder / f"{net}.nncf.xml").exists():
        answers(folder, "nncf", net, peer_python)


def images(shared: Path, folder: Path, count: int) -> np.ndarray:
    """Labels of the test images; the images, and 512 for calibration, lie in the folder."""
    from cifar import Images

    test = Images(shared / "data" / "cifar10_test.npz", count)
    np.save(folder / "test.npy", test.x.numpy())
    np.save(folder / "calibration.npy", Images(shared / "data" / "cifar10_train.npz", 512).x.numpy())
    return test.y.numpy()


def every_code(net: str, folder: Path, inputs: list[np.ndarray], name: str, threads: int) -> None:
    """Compare all tensors of the engine with the reference's, and print."""
    import intact
    from intact.engine.reference import evaluate

    engine = intact.compile(folder / f"{net}.int8.onnx", threads=threads)
    codes = different = floats = floats_different = 0
    where = ""
    start = time.perf_counter()
    for x in inputs:
        plan = engine.plan_for({name: x.shape})
        reference = evaluate(plan, {name: x})
        for tensor, got in engine.tap({name: x}).items():
            wrong = int((got != reference[tensor]).sum())
            if plan.tensors[tensor].codes is None:
                floats, floats_different = floats + got.size, floats_different + wrong
            else:
                codes, different = codes + got.size, different + wrong
            where = where or (tensor if wrong else "")
    met = "" if not different + floats_different else f"  <- MISSED, first in {where}"
    print(
        f"{net}: {different:,} of {codes:,} codes and {floats_different:,} of {floats:,} floats depart from "
        f"the integer reference on {sum(len(x) for x in inputs):,} inputs "
        f"({time.perf_counter() - start:.0f} s){met}",
        flush=True,
    )


def answers(folder: Path, runner: str, net: str, python: str = sys.executable) -> np.ndarray | None:
    """Top-1 answers of one engine, found in a process of its own; None where it cannot run."""
    environment = os.environ | ({"ONEDNN_MAX_CPU_ISA": "AVX2"} if runner.endswith("-avx2") else {})
    code = [python, __file__, "--who", runner, "--cifar", net, "--folder", str(folder)]
    done = subprocess.run(code, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        print(f"{net}, {runner}: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}", file=sys.stderr)
        return None
    return np.array(json.loads(done.stdout.splitlines()[-1]))


def by_intact(path: Path):
    import intact

    return intact.compile(path)


def by_onnxruntime(path: Path, plain: bool = False):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"image": x})[0]


def by_openvino(path: Path):
    import openvino as ov

    request = ov.Core().compile_model(str(path), "CPU").create_infer_request()
    return lambda x: request.infer({0: x})[0]


def quantize_with_nncf(folder: Path, net: str):
    """NNCF's model of the float file, with the same calibration images; made once."""
    import nncf
    import openvino as ov

    path = folder / f"{net}.nncf.xml"
    if not path.exists():
        data = nncf.Dataset(np.array_split(np.load(folder / "calibration.npy"), 8))
        quantized = nncf.quantize(ov.convert_model(str(folder / f"{net}.onnx")), data, subset_size=8)
        ov.save_model(quantized, path, compress_to_fp16=False)
    return by_openvino(path)


WHO = {
    "simulation": ("the file, ONNX Runtime without optimizations", False),
    "intact": ("INTact's engine", False),
    "onnxruntime": ("ONNX Runtime as it comes", False),
    "openvino": ("OpenVINO", True),
    "openvino-avx2": ("OpenVINO, AVX2 alone", True),
    "nncf": ("OpenVINO, NNCF's own model", True),
    "nncf-avx2": ("OpenVINO, NNCF's own model, AVX2 alone", True),
    "float": ("the float file", False),
}
"""In words, and whether the peers' interpreter runs it."""


def run_as(runner: str, net: str, folder: Path) -> None:
    path = folder / f"{net}.int8.onnx"
    kind = runner.removesuffix("-avx2")
    run = {
        "simulation": lambda: by_onnxruntime(path, plain=True),
        "intact": lambda: by_intact(path),
        "onnxruntime": lambda: by_onnxruntime(path),
        "openvino": lambda: by_openvino(path),
        "nncf": lambda: quantize_with_nncf(folder, net),
        "float": lambda: by_onnxruntime(folder / f"{net}.onnx", plain=True),
    }[kind]()
    x = np.load(folder / "test.npy")
    answers_of_batches = [run(x[i : i + BATCH]).argmax(1) for i in range(0, len(x), BATCH)]
    print(json.dumps(np.concatenate(answers_of_batches).tolist()))


def compare_answers(net: str, folder: Path, labels: np.ndarray, peer_python: str) -> None:
    simulated = answers(folder, "simulation", net)
    if simulated is None:
        return
    print(f"{'':<46}{'top-1, %':>10}{'as simulated, %':>18}")
    for runner, (words, peer) in WHO.items():
        got = answers(folder, runner, net, peer_python if peer else sys.executable)
        if got is not None:
            same = 100 * float((got == simulated).mean())
            missed = "  <- MISSED" if runner == "intact" and same < CLOSE else ""
            print(f"{words:<46}{100 * float((got == labels).mean()):>10.2f}{same:>18.2f}{missed}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    engine_files.add_options(parser)
    parser.set_defaults(nets=[])
    parser.add_argument("--cifar", nargs="*", choices=CIFAR, default=["resnet20"])
    parser.add_argument("--images", type=int, default=1000, help="test images; the reference is slow")
    parser.add_argument("--inputs", type=int, default=2, help="of each of the four nets")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--who", choices=WHO, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.who:
        run_as(args.who, args.cifar[0], args.folder)
        return
    shared = Path(os.environ.get("INTACT_SHARED", ""))
    if not (shared / "data" / "cifar10_test.npz").is_file():
        print("benchmarks/engine_exact.py: INTACT_SHARED names no folder of shared data; nothing done")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        labels = images(shared, folder, args.images) if args.cifar else np.empty(0)
        for net in args.cifar:
            cifar(net, shared, folder, args.peer_python)
            x = np.load(folder / "test.npy")
            parts = [x[i : i + BATCH] for i in range(0, len(x), BATCH)]
            every_code(net, folder, parts, "image", args.threads)
            compare_answers(net, folder, labels, args.peer_python)
        for net in args.nets:
            engine_files.prepare(net, folder, args.peer_python, (".onnx", ".int8.onnx"))
            every_code(net, folder, engine_files.noise(net, args.inputs, seed=1), "input", args.threads)


if __name__ == "__main__":
    main()
