"""Measures the latency of models on this machine, and caches it by model structure."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from intact import graph
from intact.engine import Engine, compile
from intact.errors import QuantValueError
from intact.graph import Model
from intact.kernels import instructions
from intact.timings import processor

Clock = Callable[[Any], float]
"""Seconds of one run of an `onnx.ModelProto`; a `key` of it says what they were measured on."""

_ROUNDS, _LEAST = 3, 3


class EngineClock:
    """Measures the seconds of one run in the engine.

    The first model is the measure of all later ones: it runs in turn with each, so that a clock rate that
    drifts, or other work on the machine, changes both. The fastest run counts.

    Args:
        feeds: Arrays of the inputs, of the size that counts.
        threads: Of the engine; None: as many as the process may use.
        seconds: How long each model runs, in all rounds together.
    """

    def __init__(
        self, feeds: Mapping[str, NDArray], threads: int | None = None, seconds: float = 0.15
    ) -> None:
        self._feeds, self._threads, self._budget = dict(feeds), threads, seconds
        self._first: Engine | None = None
        self._reference = 0.0

    @property
    def key(self) -> str:
        """The machine, the threads and the sizes that the figures are for."""
        sizes = ",".join(f"{name}:{'x'.join(map(str, a.shape))}" for name, a in sorted(self._feeds.items()))
        threads = self._threads or "all"
        machine = f"{processor()}, {os.cpu_count()} cores, {instructions('gemm')}"
        return f"intact, {machine}, threads {threads}, {sizes}"

    def __call__(self, model: Any) -> float:
        engine = compile(model, threads=self._threads)
        if self._first is None:
            self._first = engine
            self._reference = self._fastest(engine, 2 * self._budget)
            return self._reference
        first, this = float("inf"), float("inf")
        for _ in range(_ROUNDS):
            first = min(first, self._fastest(self._first, self._budget / _ROUNDS))
            this = min(this, self._fastest(engine, self._budget / _ROUNDS))
        return self._reference * this / first

    def _fastest(self, engine: Engine, seconds: float) -> float:
        engine.run(self._feeds)
        best, runs, end = float("inf"), 0, time.perf_counter() + seconds
        while runs < _LEAST or time.perf_counter() < end:
            start = time.perf_counter()
            engine.run(self._feeds)
            best, runs = min(best, time.perf_counter() - start), runs + 1
        return best


class CachedClock:
    """Calls another clock only for model structures that are not in its cache.

    Args:
        clock: What measures; its `key`, where it has one, says where.
        known: Seconds by structure: filled in, and read first.
        changed: Called behind each new figure.
    """

    def __init__(
        self, clock: Clock, cache: MutableMapping[str, float], on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._clock, self._cache, self._on_change = clock, cache, on_change
        self._reference_model: Model | None = None

    def begin(self, model: Model) -> float:
        """Measure the model that all others are compared to; call this first."""
        self._reference_model = model
        return self(model)

    def __call__(self, model: Model) -> float:
        """Return the seconds of `model`."""
        key = structure(model)
        if key not in self._cache:
            if self._reference_model is not None:
                if self._reference_model is not model:
                    self._clock(
                        graph.to_proto(self._reference_model)
                    )  # a clock that compares needs its measure
                self._reference_model = None
            self._cache[key] = positive(self._clock(graph.to_proto(model)))
            self._on_change()
        return self._cache[key]


def structure(model: Model) -> str:
    """Hash operators, names and sizes, without the contents of weights, on which time does not depend."""
    return _digest(graph.to_proto(model).graph, contents=False)


def identity(model: Model) -> str:
    """Hash the whole model, weights included."""
    return _digest(graph.to_proto(model).graph, contents=True)


def _digest(proto: Any, *, contents: bool) -> str:
    digest = blake2b(digest_size=16)
    for tensor in sorted(proto.initializer, key=lambda part: part.name):
        digest.update(f"{tensor.name} {tensor.data_type} {list(tensor.dims)};".encode())
        if contents:
            digest.update(tensor.SerializeToString(deterministic=True))
    for part in _parts(proto):
        digest.update(part.SerializeToString(deterministic=True))
    return digest.hexdigest()


def _parts(proto: Any) -> Iterable[Any]:
    return (*proto.input, *proto.output, *proto.node)


class FileClock:
    """Measures the seconds of one run of an ONNX file by a function of the user.

    Args:
        latency: Gets the path of a file that is gone afterwards, and gives the seconds of one run.
        key: What it measures on, in words.
    """

    def __init__(self, latency: Callable[[str], Any], key: str) -> None:
        self._latency, self.key = latency, key

    def __call__(self, model: Any) -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            graph.save(graph.load(model), path)
            return positive(self._latency(str(path)))


def positive(value: Any) -> float:
    """Convert the result of a clock to seconds.

    Raises:
        QuantValueError: It is no finite number above 0.
    """
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = float("nan")
    if not (isfinite(seconds) and seconds > 0):
        raise QuantValueError(
            "clock", f"{value!r:.60}", "seconds: a finite number above 0", "return the time of one run"
        )
    return seconds
