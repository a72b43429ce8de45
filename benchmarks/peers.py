"""ONNX Runtime's and NNCF's quantization as the benchmarks use them: inputs by name, the peers' defaults."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Feeds = dict[str, np.ndarray]


def in_turns(engine: Any, session: Any, feeds: Feeds, rounds: int) -> tuple[float, float]:
    """Seconds of the fastest run of an engine, and of a session of ONNX Runtime, after each other."""
    ours, theirs = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        engine.run(feeds)
        middle = time.perf_counter()
        session.run(None, feeds)
        theirs.append(time.perf_counter() - middle)
        ours.append(middle - begin)
    return min(ours), min(theirs)


def reader(feeds: Iterable[Feeds]) -> Any:
    """Return the reader of calibration inputs for `quantize_static`."""
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(feeds)

        def get_next(self) -> Feeds | None:
            return next(self.rest, None)

    return Reader()


def quantize_onnxruntime(
    model: Path, outputs: dict[str, Path], feeds: Sequence[Feeds], *, preprocess: bool = True
) -> None:
    """int8 files by format ("QDQ", "QOperator"): uint8 activations, int8 weights per channel.

    `preprocess`: The model is preprocessed first, where ONNX Runtime can do that.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = next(iter(outputs.values())).with_suffix(".prepared")
    try:
        try:
            if preprocess:
                quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        except Exception:  # it is no more than advice: some models are quantized without
            prepared.unlink(missing_ok=True)
        source = prepared if prepared.exists() else model
        for kind, out in outputs.items():
            quantize_static(
                str(source), str(out), reader(feeds), quant_format=QuantFormat[kind], per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            )  # fmt: skip
    finally:
        prepared.unlink(missing_ok=True)


def quantize_nncf(model: Path, out: Path, feeds: Sequence[Feeds], *, transformer: bool = False) -> None:
    """An OpenVINO model, floats in float32; `transformer`: NNCF is told that it is one."""
    import nncf
    import openvino as ov

    kind = {"model_type": nncf.ModelType.TRANSFORMER} if transformer else {}
    quantized = nncf.quantize(
        ov.convert_model(str(model)), nncf.Dataset(feeds), subset_size=len(feeds), **kind
    )
    ov.save_model(quantized, out, compress_to_fp16=False)
