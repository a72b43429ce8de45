"""Implicit int8 under TensorRT's names: what the builder chooses beside all int8 and all float.

    INTACT_SHARED=<the shared data> python benchmarks/trt_implicit.py --nets resnet18 mobilenetv2

For each network a min-max calibrator on noise, and three engines whose runs take turns: the builder's choice,
every layer in int8 that can be, none. Target: the choice is at most 3% slower than the better of the others.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import perf_counter

import engine_files
import numpy as np

import intact.trt as trt
from intact.calib import TrtCache
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.ptq import quantize_from_cache

ROUNDS = 30
CLOSE = 1.03


class Noise(trt.IInt8MinMaxCalibrator):
    """Four batches of noise; keeps the cache that they lead to."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.batches = iter([rng.standard_normal(shape).astype(np.float32) for _ in range(4)])
        self.cache = b""

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names: list[str]) -> list[np.ndarray] | None:
        batch = next(self.batches, None)
        return None if batch is None else [batch]

    def write_calibration_cache(self, cache: bytes) -> None:
        self.cache = bytes(cache)


def build_engine(onnx: Path, threads: int) -> tuple[Engine, TrtCache, dict[str, np.ndarray]]:
    """The builder's engine, the ranges behind it, and an input."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network, config = builder.create_network(), builder.create_builder_config()
    if not trt.OnnxParser(network, logger).parse_from_file(onnx):
        raise SystemExit(f"{onnx} was not parsed")
    (port,) = network.inputs
    shape = tuple(max(n, 1) for n in port.shape)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = noise = Noise(shape)
    runtime = trt.Runtime(logger)
    runtime.max_threads = threads
    engine = runtime.deserialize_cuda_engine(builder.build_serialized_network(network, config))
    feeds = {port.name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    return engine.engine, TrtCache.parse(noise.cache.decode()), feeds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    engine_files.add_options(parser)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if engine_files.shared_nets() is None and args.folder is None:
        print(f"{parser.prog}: INTACT_SHARED names no folder with nets.py; nothing done")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        for net in args.nets:
            onnx = folder / f"{net}.onnx"
            if not onnx.exists():
                engine_files.export(net, onnx)
            choice, cache, feeds = build_engine(onnx, args.threads)
            plans = {"all int8": quantize_from_cache(onnx, cache).result.model, "all float": onnx}
            engines = {name: Engine(lower(model), threads=args.threads) for name, model in plans.items()}
            engines = {"chosen": choice, **engines}
            best = dict.fromkeys(engines, float("inf"))
            for _ in range(ROUNDS):
                for name, engine in engines.items():
                    start = perf_counter()
                    engine.run(feeds)
                    best[name] = min(best[name], perf_counter() - start)
            ratio = best["chosen"] / min(best["all int8"], best["all float"])
            shown = ", ".join(f"{name} {1e3 * s:.2f} ms" for name, s in best.items())
            print(f"{net}: {shown}; {ratio:.3f}{'' if ratio <= CLOSE else '  <- MISSED'}", flush=True)


if __name__ == "__main__":
    main()
