"""`HistogramCalibrator`: the old library's histogram of |x|; `calibrate_weights`: ranges for all weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from intact.calib import amax_from_counts
from intact.errors import CalibrationError, UnsupportedError
from intact.kernels import MAX_BINS
from intact.torch._errors import NotOfferedError
from intact.torch.calib.calibrator import _Calibrator, as_real
from intact.torch.calib.on_device import DeviceBins, count_fixed
from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import ConvTransposeNd

_METHODS = ("entropy", "mse", "percentile")
_OPTIONS: dict[str, Any] = {
    "num_bits": 8, "axis": None, "unsigned": False, "num_bins": 2048, "skip_zeros": False, "torch_hist": True,
}  # fmt: skip


class HistogramCalibrator(_Calibrator):
    """Counts |x| in bins whose width the first batch sets; larger values later on append bins.

    Args:
        num_bits, axis, unsigned: As for `_Calibrator`; only ``axis=None``.
        num_bins: Number of bins of the first batch.
        grow_method: Accepted and ignored, as in the old library: bins are always appended.
        skip_zeros: Do not count zeros.
        torch_hist: What counts and edges are handed out as: tensors, or NumPy arrays. They are counted alike.

    Counts are int64 and exact. An all-zero batch sets no width; its zeros are kept and counted once one is
    known. Tensors off the CPU are counted where they are, and what `collect` refuses is refused when counts
    are asked for. `intact.torch.calibrate` uses histograms that do not depend on the order of batches.
    """

    def __init__(
        self,
        num_bits: int | tuple[int, int] = 8,
        axis: int | tuple[int, ...] | None = None,
        unsigned: bool = False,
        num_bins: int = 2048,
        grow_method: str | None = None,
        skip_zeros: bool = False,
        torch_hist: bool = True,
    ) -> None:
        super().__init__(num_bits, axis, unsigned)
        if axis is not None:
            raise NotOfferedError(
                "HistogramCalibrator",
                f"axis={axis}",
                "axis=None: Calibrator histogram collection only supports per tensor scaling",
                "use calib_method='max' or 'mergeable' for per-channel ranges",
            )
        self._initial_bins = num_bins
        self._grow_method = grow_method
        self._skip_zeros = skip_zeros
        self._torch_hist = torch_hist
        self.reset()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load the state of a pickle, ours or the old library's, which kept counts and edges."""
        if "_counts" in state:
            self.__dict__.update({"_pending": None} | state)
            return
        options = {key: state.get(f"_{key}", default) for key, default in _OPTIONS.items()}
        self.__init__(**options)  # type: ignore[misc]
        counts, edges = state.get("_calib_hist"), state.get("_calib_bin_edges")
        if counts is not None and edges is not None:
            self._counts, bounds = np.asarray(counts).astype(np.int64), np.asarray(edges, np.float64)
            self._width, self._top = float(bounds[1] - bounds[0]), float(bounds[-1])

    def reset(self) -> None:
        self._pending: DeviceBins | None = None
        self._counts = np.zeros(0, np.int64)
        self._width = 0.0
        self._zeros = 0
        self._top = 0.0  # the last edge: that of the first bins is their peak, free of rounding

    def _fetch(self) -> None:
        """Bring to the host what was counted on a device.

        Raises:
            CalibrationError: As `collect`.
        """
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        counts, width, top, zeros, peak, bins = pending.fetch()
        _refuse_nonfinite(peak, "a tensor that was collected")
        _refuse_bins(bins, peak, width)
        self._counts, self._width, self._top, self._zeros = counts, width, top, zeros

    @property
    def _num_bins(self) -> int:
        self._fetch()
        return len(self._counts) or self._initial_bins

    @_num_bins.setter
    def _num_bins(self, value: int) -> None:
        self._initial_bins = value  # of the next first batch

    @property
    def _calib_hist(self) -> NDArray[np.int64] | Tensor | None:
        self._fetch()
        return self._as_requested_type(self._counts) if len(self._counts) else None

    @property
    def _calib_bin_edges(self) -> NDArray[Any] | Tensor | None:
        self._fetch()
        if not len(self._counts):
            return None
        return self._as_requested_type((np.arange(len(self._counts) + 1) * self._width).astype(np.float32))

    def _as_requested_type(self, array: NDArray[Any]) -> NDArray[Any] | Tensor:
        return torch.from_numpy(array) if self._torch_hist else array

    def collect(self, x: Tensor) -> None:
        """Count all of `x`.

        Raises:
            CalibrationError: `x` holds NaN or infinity, or values too large for the first batch's bins.
        """
        if not x.numel():
            return
        x = as_real(x)
        if not ops.is_readable(x):
            if self._pending is None:
                state = self._counts, self._width, self._top, self._zeros
                self._pending = DeviceBins(*state, self._initial_bins, MAX_BINS, x.device)
            self._pending.collect(x, self._skip_zeros)
            return
        self._fetch()
        peak = _finite_peak(x)
        if self._width == 0.0 and np.float32(peak) / np.float32(self._initial_bins) == 0:
            self._zeros += 0 if self._skip_zeros else x.numel()
            return
        self._make_bins(peak)
        if self._skip_zeros:
            x = x[x != 0]
        ops.count_fixed(x, self._width, self._counts)

    def _make_bins(self, peak: float) -> None:
        if self._width == 0.0:
            self._width = float(np.float32(peak) / np.float32(self._initial_bins))
            self._top = peak
            self._counts = np.zeros(self._initial_bins, np.int64)
            self._counts[0] = self._zeros
        elif peak > self._top:
            bins = max(int(np.ceil(peak / self._width)), len(self._counts))
            _refuse_bins(bins, peak, self._width)
            self._counts = np.concatenate([self._counts, np.zeros(bins - len(self._counts), np.int64)])
            self._top = bins * self._width

    def compute_amax(
        self, method: str | None = None, *, stride: int = 1, start_bin: int = 128, percentile: float = 99.99
    ) -> Tensor | None:
        """Compute the range that `method` chooses from the counts, which stay as they are.

        Args:
            method: "entropy", "mse" or "percentile".
            stride, start_bin: Candidates of entropy and mse: every `stride`-th edge from `start_bin`.
            percentile: Share of |x|, in percent, that the range covers.
        Returns:
            0-D float32; None before anything was collected.
        Raises:
            UnsupportedError: (a TypeError) Unknown calibration method.
        """
        if method is None or method not in _METHODS:
            raise UnsupportedError(
                "HistogramCalibrator.compute_amax",
                f"Unknown calibration method {method!r}",
                f"one of {_METHODS}",
                "choose one of these",
            )
        self._fetch()
        if not len(self._counts):
            return torch.tensor(0.0) if self._zeros else None
        return _from_counts(
            self._counts, self._width, self._num_bits, self._unsigned, method,
            stride=stride, start_bin=start_bin, percentile=percentile,
        )  # fmt: skip

    def __str__(self) -> str:
        edges = self._calib_bin_edges
        shown = "None" if edges is None else f"[{edges[0]:.3f}, ..., {edges[-1]:.3f}]({len(edges)})"
        return f"HistogramCalibrator(calib_bin_edges={shown})"

    def __repr__(self) -> str:
        return (
            f"HistogramCalibrator({super().__repr__()} calib_bin_edges={self._calib_bin_edges} "
            f"calib_hist={self._calib_hist})"
        )


def calibrate_weights(
    model: nn.Module,
    method: str = "percentile",
    perchannel: bool = True,
    percentile: float = 99.99,
    num_bins: int = 2048,
) -> None:
    """Set the amax of every weight quantizer of `model` from its weights.

    Args:
        model: Holds modules with a `weight` and a `weight_quantizer`.
        method: "max", "mse" or "percentile".
        perchannel: One amax per output channel (axis 1 of ConvTranspose weights, else 0), or one in all.
        percentile: Share of |w|, in percent, that the range covers.
        num_bins: Bins of the histogram of each channel.
    Raises:
        UnsupportedError: (a TypeError) Unknown calibration method.
    """
    if method not in ("max", "mse", "percentile"):
        raise UnsupportedError(
            "calibrate_weights",
            f"Unsupported calibration method {method!r}",
            "'max', 'mse' or 'percentile'",
            "choose one of these",
        )
    weights = []
    for module in model.modules():
        quantizer, weight = getattr(module, "weight_quantizer", None), getattr(module, "weight", None)
        if quantizer is None or not isinstance(weight, Tensor):
            continue
        axis = None
        if perchannel:
            axis = 1 if isinstance(module, ConvTransposeNd) else 0
        weights.append(
            (quantizer, *_peaks_and_counts(weight.detach(), axis, 0 if method == "max" else num_bins))
        )
    # A device counts all weights before it is waited for.
    for quantizer, peaks, counts in weights:
        if method == "max":
            quantizer.amax = peaks
        else:
            options = (quantizer.num_bits, quantizer.unsigned, method)
            quantizer.amax = _amax_of_rows(peaks, counts.cpu().numpy(), options, percentile)


def _peaks_and_counts(weight: Tensor, axis: int | None, bins: int) -> tuple[Tensor, Tensor]:
    """Return the largest magnitude of each channel, and counts of its values: int64, [channels, bins]."""
    low, high = ops.min_max(weight, () if axis is None else (axis,))
    peaks = torch.maximum(low.abs(), high.abs())
    channels = [weight] if axis is None else weight.unbind(axis)
    counts = torch.zeros(len(channels) if bins else 0, bins, dtype=torch.int64, device=weight.device)
    widths = peaks.flatten() / torch.full_like(peaks.flatten(), bins)
    for row, channel, width in zip(counts, channels, widths, strict=False):
        if not ops.is_readable(weight):
            count_fixed(
                channel, torch.where(width > 0, width, math.inf), torch.full_like(row[0], bins - 1), row
            )
        elif width > 0:
            ops.count_fixed(channel, float(width), row.numpy())
    return peaks, counts


def _amax_of_rows(
    peaks: Tensor, counts: NDArray[np.int64], grid: tuple[Any, bool, str], percentile: float
) -> Tensor:
    """Compute the range that `method` chooses for each channel, on the device of `peaks`."""
    amaxes = []
    for peak, row in zip(peaks.flatten().tolist(), counts, strict=True):
        width = float(np.float32(peak) / np.float32(counts.shape[1]))
        amax = _from_counts(row, width, *grid, percentile=percentile) if width else torch.tensor(0.0)
        amaxes.append(amax)
    return torch.stack(amaxes).reshape(peaks.shape).to(peaks.device)


def _from_counts(
    counts: NDArray[np.int64],
    width: float,
    num_bits: int | tuple[int, int],
    unsigned: bool,
    method: str,
    **options: Any,
) -> Tensor:
    """Compute the range by `method`, which takes those of `options` that it knows."""
    wanted = ("percentile",) if method == "percentile" else ("stride", "start_bin")
    method_options = {key: value for key, value in options.items() if key in wanted}
    return torch.tensor(float(amax_from_counts(counts, width, num_bits, unsigned, method, **method_options)))


def _compute_amax_entropy(
    calib_hist: ArrayLike | None,
    calib_bin_edges: ArrayLike | None,
    num_bits: int | tuple[int, int],
    unsigned: bool,
    stride: int = 1,
    start_bin: int = 128,
) -> Tensor | None:
    """Run the entropy method on bare counts and edges, as scripts call it; None where there are no counts."""
    return _on_bare(
        calib_hist, calib_bin_edges, num_bits, unsigned, "entropy", stride=stride, start_bin=start_bin
    )


def _compute_amax_mse(
    calib_hist: ArrayLike | None,
    calib_bin_edges: ArrayLike | None,
    num_bits: int | tuple[int, int],
    unsigned: bool,
    stride: int = 1,
    start_bin: int = 128,
) -> Tensor | None:
    """Run the mse method on bare counts and edges, as scripts call it; None where there are no counts."""
    return _on_bare(
        calib_hist, calib_bin_edges, num_bits, unsigned, "mse", stride=stride, start_bin=start_bin
    )


def _compute_amax_percentile(
    calib_hist: ArrayLike | None, calib_bin_edges: ArrayLike | None, percentile: float
) -> Tensor | None:
    """Run the percentile method on bare counts and edges, as scripts call it.

    None where there are no counts.
    """
    return _on_bare(calib_hist, calib_bin_edges, 8, False, "percentile", percentile=percentile)


def _on_bare(
    counts: ArrayLike | None,
    edges: ArrayLike | None,
    num_bits: Any,
    unsigned: bool,
    method: str,
    **options: Any,
) -> Tensor | None:
    if counts is None or edges is None:
        return None
    width = float(np.diff(np.asarray(edges, np.float64)[:2])[0])
    return _from_counts(np.asarray(counts).astype(np.int64), width, num_bits, unsigned, method, **options)


def _finite_peak(x: Tensor) -> float:
    low, high = ops.min_max(x)
    peak = max(abs(float(low)), abs(float(high)))
    _refuse_nonfinite(peak, f"a tensor of shape {tuple(x.shape)}")
    return peak


def _refuse_nonfinite(peak: float, what: str) -> None:
    if not np.isfinite(peak):
        raise CalibrationError(
            "calibration",
            f"NaN or infinity in {what}",
            "finite values",
            "find the layer that produces them in the float model first",
        )


def _refuse_bins(bins: int, peak: float, width: float) -> None:
    if bins > MAX_BINS:
        raise CalibrationError(
            "HistogramCalibrator",
            f"a value of {peak:.4g} where the first batch set bins of {width:.4g}",
            f"at most {MAX_BINS} bins",
            "start with a typical batch, or use calib_method='mergeable', which widens its bins",
        )
