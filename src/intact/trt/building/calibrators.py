"""TensorRT's int8 calibrators: classes that a script subclasses, and the table of scales that they lead to.

TensorRT asks in this order: ``get_batch_size``, ``read_calibration_cache``; where that gives nothing,
``get_batch`` until it gives nothing, then ``write_calibration_cache``. Ranges come from INTact's mergeable
histograms, so that neither batch size nor order changes them.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact import numerics, ptq
from intact.calib import LEAST_VALUES, Calibration, Candidates, TrtCache, amax_of
from intact.errors import CalibrationError, IntactError
from intact.ptq.stages import NothingToQuantizeError
from intact.spec import INT8, QuantSpec
from intact.trt.base.enums import CalibrationAlgoType
from intact.trt.base.itensor import Sizes, at_address, is_address
from intact.trt.building.build_observers import OBSERVERS
from intact.trt.network import INetworkDefinition
from intact.trt.plugins.split_at_plugins import before_plugins

_Given = tuple[int, Mapping[str, Sizes]]
"""The batch size that the calibrator says, and the usual shapes of inputs."""


class IInt8Calibrator:
    """Base of all calibrators: subclass one of the four, define ``get_batch_size`` and ``get_batch``.

    A direct subclass of this one also defines ``get_algorithm``, which says which of the four it is.
    """

    ALGORITHM: ClassVar[CalibrationAlgoType]

    def get_batch_size(self) -> int:
        """Return the samples per batch; 1 where the network's own shape says it."""
        raise NotImplementedError(f"{type(self).__name__} must define get_batch_size()")

    def get_batch(self, names: list[str]) -> list[Any] | None:
        """Return the next batch: for each name an array, or an address in host memory; None at the end."""
        raise NotImplementedError(f"{type(self).__name__} must define get_batch(names)")

    def read_calibration_cache(self) -> bytes | None:
        """Return a cache that was written before; None calibrates anew."""
        return None

    def write_calibration_cache(self, cache: memoryview) -> None:
        """Keep the cache, if wanted; ``cache.tobytes()`` copies it."""

    def get_algorithm(self) -> CalibrationAlgoType:
        """Return the calibration algorithm."""
        try:
            return self.ALGORITHM
        except AttributeError:
            raise NotImplementedError(f"{type(self).__name__} must define get_algorithm()") from None

    def method(self) -> tuple[str, dict[str, Any]]:
        """Return the method of `intact.calib` that chooses ranges, and its options."""
        return method_of(self)


class IInt8EntropyCalibrator2(IInt8Calibrator):
    """Least divergence between the distributions before and behind quantization: TensorRT's advice."""

    ALGORITHM = CalibrationAlgoType.ENTROPY_CALIBRATION_2


class IInt8EntropyCalibrator(IInt8Calibrator):
    """The same algorithm; TensorRT ran it behind fusion, which changes no tensor's range here."""

    ALGORITHM = CalibrationAlgoType.ENTROPY_CALIBRATION


class IInt8MinMaxCalibrator(IInt8Calibrator):
    """The largest magnitude that occurred."""

    ALGORITHM = CalibrationAlgoType.MINMAX_CALIBRATION


class IInt8LegacyCalibrator(IInt8Calibrator):
    """The magnitude below which a share of the values lies: ``get_quantile``.

    ``get_regression_cutoff`` is asked for and not used: TensorRT never published what it did.
    """

    ALGORITHM = CalibrationAlgoType.LEGACY_CALIBRATION

    def get_quantile(self) -> float:
        """Share of the values, in (0, 1]."""
        return 0.9999

    def get_regression_cutoff(self) -> float:
        """Return a cutoff, which is not used."""
        return 1.0

    def read_histogram_cache(self, length: int) -> bytes | None:
        """Return statistics that were written before; None collects anew. `length` is 0: it is not known."""
        return None

    def write_histogram_cache(self, ptr: int, length: int) -> None:
        """Keep the statistics, if wanted: `length` bytes (an INTact ``.calib`` file) at the address `ptr`."""


TABLES = {
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: "EntropyCalibration2",
    CalibrationAlgoType.ENTROPY_CALIBRATION: "EntropyCalibration",
    CalibrationAlgoType.MINMAX_CALIBRATION: "MinMaxCalibration",
    # No file with the legacy algorithm's name was ever seen; readers of the format know three names.
    CalibrationAlgoType.LEGACY_CALIBRATION: "EntropyCalibration",
}
"""Names of the algorithms in the first line of a cache."""


def method_of(calibrator: IInt8Calibrator) -> tuple[str, dict[str, Any]]:
    """Return the method of `intact.calib` that a calibrator's algorithm is, and its options."""
    algorithm = calibrator.get_algorithm()
    if algorithm == CalibrationAlgoType.MINMAX_CALIBRATION:
        return "max", {}
    if algorithm == CalibrationAlgoType.LEGACY_CALIBRATION:
        legacy: Any = calibrator if hasattr(calibrator, "get_quantile") else IInt8LegacyCalibrator()
        legacy.get_regression_cutoff()
        return "percentile", {"percentile": 100.0 * legacy.get_quantile()}
    return "entropy", {}


def calibrator_of_cache(cache: TrtCache) -> IInt8Calibrator:
    """Return a calibrator that has a cache and no data."""
    kinds = (IInt8EntropyCalibrator2, IInt8MinMaxCalibrator, IInt8EntropyCalibrator)
    kind = {TABLES[k.ALGORITHM]: k for k in kinds}[cache.algorithm]
    methods: dict[str, Any] = {
        "get_batch_size": lambda self: 1,
        "get_batch": lambda self, names: None,
        "read_calibration_cache": lambda self: cache.to_text().encode(),
    }
    calibrator: IInt8Calibrator = type("CacheCalibrator", (kind,), methods)()
    return calibrator


def table_of(
    calibrator: IInt8Calibrator, network: INetworkDefinition, model: Any,
    usual: Mapping[str, Sizes] = MappingProxyType({}),
) -> TrtCache:  # fmt: skip
    """Compute the scales for a network from the calibrator's cache or its batches.

    Args:
        calibrator: Asked in TensorRT's order.
        network: Whose inputs the batches are for.
        model: The network as an onnx-ir model.
        usual: Shapes of inputs in the profile of the calibration: what is free behind addresses.
    Raises:
        CalibrationError: There is no batch, or a batch is not what the network reads.
    """
    size = int(_call_user(calibrator, network, "get_batch_size"))
    table = TABLES[CalibrationAlgoType(_call_user(calibrator, network, "get_algorithm"))]
    stored = _call_user(calibrator, network, "read_calibration_cache")
    if stored:
        cache_of_user = _parse_cache(table, network, bytes(stored))
        if cache_of_user is not None:
            return cache_of_user
    scales = _scales(calibrator, network, model, (size, usual))
    cache = TrtCache(scales, algorithm=table)
    _call_user(calibrator, network, "write_calibration_cache", memoryview(cache.to_text().encode()))
    return cache


def _call_user(calibrator: IInt8Calibrator, network: INetworkDefinition, method: str, *arguments: Any) -> Any:
    """Call a method of the user's calibrator; log the traceback of an error, which ends the build.
    Raises:
        CalibrationError: The method raised.
    """
    try:
        return getattr(calibrator, method)(*arguments)
    except Exception as error:
        network.complain("".join(traceback.format_exception(error)).rstrip(), None)
        raise CalibrationError(
            f"{type(calibrator).__name__}.{method}", f"{type(error).__name__}: {error}", "no exception",
            "correct the calibrator; its traceback is in the log",
        ) from error  # fmt: skip


def _parse_cache(table: str, network: INetworkDefinition, stored: bytes) -> TrtCache | None:
    try:
        cache = TrtCache.parse(stored.decode())
    except (IntactError, UnicodeDecodeError) as error:
        network.warn(f"Calibration cache cannot be read, calibrating anew: {error}")
        return None
    if cache.algorithm != table:
        network.warn("Calibration table does not match calibrator algorithm type.")
        return None
    return cache


def _scales(
    calibrator: IInt8Calibrator, network: INetworkDefinition, model: Any, sizes: _Given
) -> dict[str, np.float32]:
    statistics = _stored_statistics(calibrator, network)
    if statistics is None:
        batches = _batches(calibrator, network, sizes)
        try:
            statistics = ptq.calibrate(before_plugins(model), batches, profile="tensorrt", progress=False)
        except NothingToQuantizeError:
            deque(batches, maxlen=0)  # the script may count what it is asked for
            return {}
        _keep_statistics(calibrator, network, statistics)
    method, options = _call_user(calibrator, network, "method")
    options, spec = {"least_values": LEAST_VALUES} | options, QuantSpec(INT8)
    few = [
        name for name, stats in statistics.items()
        if Candidates(name, stats, spec, options).is_too_few(method)
    ]  # fmt: skip
    if few:
        network.warn(
            f"{len(few)} tensors have too few values in all batches to show a distribution: their whole "
            f"ranges are taken: {', '.join(few[:3])}"
        )
    return {
        name: np.float32(numerics.scale_from_amax(amax_of(stats, spec, method, **options), spec))
        for name, stats in statistics.items()
    }


def _stored_statistics(calibrator: IInt8Calibrator, network: INetworkDefinition) -> Calibration | None:
    """Load the statistics that a legacy calibrator kept of an earlier run: another quantile needs no data."""
    if not isinstance(calibrator, IInt8LegacyCalibrator):
        return None
    data = _call_user(calibrator, network, "read_histogram_cache", 0)
    if data is None or is_address(data):
        if data:
            network.warn("Histogram cache is an address of unknown length, calibrating anew: return bytes")
        return None
    if not len(data):
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "histograms.calib"
        path.write_bytes(bytes(data))
        try:
            return Calibration.load(path)
        except IntactError as error:
            network.warn(f"Histogram cache cannot be read, calibrating anew: {error}")
            return None


def _keep_statistics(
    calibrator: IInt8Calibrator, network: INetworkDefinition, statistics: Calibration
) -> None:
    if isinstance(calibrator, IInt8LegacyCalibrator):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "histograms.calib"
            statistics.save(path)
            data = np.frombuffer(path.read_bytes(), np.uint8)
        _call_user(calibrator, network, "write_histogram_cache", data.ctypes.data, data.nbytes)


def _batches(
    calibrator: IInt8Calibrator, network: INetworkDefinition, sizes: _Given
) -> Iterator[dict[str, NDArray]]:
    names, count = [t.name for t in network.inputs], 0
    size, usual = sizes
    while True:
        answer = _call_user(calibrator, network, "get_batch", list(names))
        if answer is None or len(answer) == 0:
            break
        if len(answer) != len(names):
            raise CalibrationError(
                f"{type(calibrator).__name__}.get_batch", f"{len(answer)} tensors",
                f"one for each of {names}", "return one array for each name",
            )  # fmt: skip
        count += 1
        implicit = network.has_implicit_batch_dimension
        arrays = {
            t.name: _array_of_batch(
                item, (size, *t.shape) if implicit else t.shape, t.dtype.numpy, size, usual.get(t.name)
            )
            for t, item in zip(network.inputs, answer, strict=True)
        }
        samples = range(size) if implicit else [slice(None)]
        for sample in samples:
            feeds = {name: array[sample] for name, array in arrays.items()}
            for observer in OBSERVERS:
                observer.on_batch(feeds)
            yield feeds
    if count == 0:
        raise CalibrationError(
            f"{type(calibrator).__name__}.get_batch", "no batch", "at least one",
            "return data, or None from get_batch only at the end",
        )  # fmt: skip


def _array_of_batch(
    item: Any, shape: tuple[int, ...], dtype: np.dtype, size: int, usual: Sizes | None
) -> NDArray:
    """Return the array itself, or a copy of the one at an address."""
    if not is_address(item):
        return np.ascontiguousarray(np.asarray(item, dtype)).reshape(
            _fill_dynamic_sizes(shape, np.asarray(item).size, size)
        )
    if usual is None or len(usual) != len(shape):
        usual = (size,) * len(shape)
    free = (size if size > 0 else usual[0], *usual[1:]) if usual else ()
    full = tuple(f if n < 0 else n for n, f in zip(shape, free, strict=True))
    if min(full, default=1) < 1:
        raise CalibrationError(
            "get_batch_size", f"{size} for an input of {shape}", "at least 1",
            "answer how many samples a batch has",
        )  # fmt: skip
    return at_address(int(item), full, dtype).copy()


def _fill_dynamic_sizes(shape: tuple[int, ...], count: int, size: int) -> tuple[int, ...]:
    """Fill the dynamic sizes of `shape`: the last of them by the number of elements."""
    if -1 not in shape:
        return shape
    dynamic = [i for i, n in enumerate(shape) if n < 0]
    filled = list(shape)
    for i in dynamic[1:]:
        filled[i] = size
    filled[dynamic[0]] = -1
    return tuple(filled) if count else shape
