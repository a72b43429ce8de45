"""A script in TensorRT 8 style on CIFAR-10: parse, calibrate, build, serialize, deserialize, run.

    INTACT_SHARED=<the shared data> python benchmarks/trt_cifar.py --model resnet20

For each calibrator of TensorRT: top-1 over the 10,000 test images beside float, and whether a second build,
with the calibration cache and the timing cache that the first one wrote, gives the same bytes.

Targets: within 0.3 point of float with EntropyCalibrator2, within 0.15 with the best calibrator.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from cifar import NETS, Images
from onnx_cifar import answers, export, top1

import intact.trt as trt

CALIBRATORS = (
    trt.IInt8EntropyCalibrator2, trt.IInt8EntropyCalibrator, trt.IInt8MinMaxCalibrator,
    trt.IInt8LegacyCalibrator,
)  # fmt: skip
BATCH = 64


def calibrator(
    kind: type[trt.IInt8Calibrator], images: np.ndarray, cache: bytes | None
) -> trt.IInt8Calibrator:
    """Make the calibrator of a script: batches out of an array, the cache kept in memory."""

    class Calibrator(kind):  # type: ignore[misc,valid-type]
        written = cache

        def __init__(self) -> None:
            kind.__init__(self)
            self.at = 0

        def get_batch_size(self) -> int:
            return BATCH

        def get_batch(self, names: list[str]) -> list[int] | None:
            if self.at + BATCH > len(images):
                return None
            self.batch = np.ascontiguousarray(images[self.at : self.at + BATCH])
            self.at += BATCH
            return [self.batch.ctypes.data]

        def read_calibration_cache(self) -> bytes | None:
            return self.written

        def write_calibration_cache(self, cache: bytes) -> None:
            self.written = bytes(cache)

    return Calibrator()


def build(onnx: Path, int8: trt.IInt8Calibrator, times: bytes) -> tuple[bytes, bytes]:
    """The engine's bytes and the timing cache's."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(onnx.read_bytes()):
        raise SystemExit("\n".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.max_workspace_size = 1 << 30
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = int8
    profile = builder.create_optimization_profile()
    profile.set_shape("image", (1, 3, 32, 32), (BATCH, 3, 32, 32), (500, 3, 32, 32))
    config.add_optimization_profile(profile)
    config.set_timing_cache(config.create_timing_cache(times), False)
    serialized = builder.build_serialized_network(network, config)
    if serialized is None:
        raise SystemExit("no engine was built")
    return bytes(serialized), config.get_timing_cache().serialize()


def classes(serialized: bytes, images: np.ndarray) -> np.ndarray:
    """The answers of the engine, through addresses of bindings."""
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(serialized)
    context = engine.create_execution_context()
    result = []
    for start in range(0, len(images), 500):
        batch = np.ascontiguousarray(images[start : start + 500])
        context.set_binding_shape(0, batch.shape)
        logits = np.empty(context.get_binding_shape(1), trt.nptype(engine.get_binding_dtype(1)))
        if not context.execute_v2([batch.ctypes.data, logits.ctypes.data]):
            raise SystemExit("a run failed")
        result.append(logits.argmax(1))
    return np.concatenate(result)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=NETS, default="resnet20")
    parser.add_argument("--images", type=int, default=512, help="calibration images")
    options = parser.parse_args(arguments)
    shared = Path(os.environ.get("INTACT_SHARED", ""))
    if not (shared / "data" / "cifar10_test.npz").is_file():
        print(
            "benchmarks/trt_cifar.py: INTACT_SHARED names no folder with data/cifar10_test.npz; nothing done"
        )
        return
    test = Images(shared / "data" / "cifar10_test.npz", 10_000)
    train = Images(shared / "data" / "cifar10_train.npz", options.images).x.numpy()
    with tempfile.TemporaryDirectory() as folder:
        onnx = Path(folder) / "float.onnx"
        export(options.model, shared / "models" / f"cifar10_{options.model}.safetensors", onnx)
        before = top1(answers(onnx, test, 1), test)
        print(f"{options.model}: float {before:.2f}%")
        best = -100.0
        for kind in CALIBRATORS:
            item = calibrator(kind, train, None)
            serialized, times = build(onnx, item, b"")
            after = top1(classes(serialized, test.x.numpy()), test)
            again = calibrator(kind, train[:0], item.written)
            same = build(onnx, again, times)[0] == serialized
            best = max(best, after - before)
            limit = 0.3 if kind is trt.IInt8EntropyCalibrator2 else 100.0
            missed = "" if after - before >= -limit else "  <- MISSED"
            print(
                f"  {kind.__name__[5:]}: {after:.2f}% ({after - before:+.2f}){missed}; "
                f"rebuilt from its caches: {'the same bytes' if same else 'other bytes  <- MISSED'}",
                flush=True,
            )
        print(f"  best: {best:+.2f}{'' if best >= -0.15 else '  <- MISSED'}")


if __name__ == "__main__":
    main()
