"""The old library's calibrators: its bins and results, without its defects."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from intact import numerics
from intact.calib import amax_from_counts
from intact.errors import IntactError
from intact.torch import nn as quant_nn
from intact.torch.calib import (
    HistogramCalibrator,
    MaxCalibrator,
    MergeableCalibrator,
    calibrate_weights,
    histogram,
)
from intact.torch.calib.calibrator import _Calibrator
from intact.torch.tensor_quant import QuantDescriptor
from intact.torch.utils import quant_logging, reduce_amax

# ---- max ----


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)], ids=str)
def test_max_is_exact_over_batches(axis: int | tuple[int, ...] | None) -> None:
    batches = [torch.randn(2, 3, 4) * n for n in (1, 5, 2)]
    calibrator = MaxCalibrator(8, axis, False, track_amax=True)
    for batch in batches:
        calibrator.collect(batch)
    want = np.maximum.reduce([numerics.absmax(b.numpy(), axis) for b in batches])
    assert np.array_equal(calibrator.compute_amax().numpy().reshape(want.shape), want)
    each = [numerics.absmax(b.numpy(), axis) for b in batches]
    assert [np.array_equal(a.reshape(b.shape), b) for a, b in zip(calibrator.amaxs, each, strict=True)] == [
        True
    ] * 3
    low, high = calibrator.compute_range()
    assert torch.equal(torch.maximum(low.abs(), high.abs()), calibrator.compute_amax())
    calibrator.reset()
    assert calibrator.compute_amax() is None and calibrator.compute_range() is None and calibrator.amaxs == []


def test_max_refuses_a_changed_shape() -> None:
    calibrator = MaxCalibrator(axis=0)
    calibrator.collect(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="amax shape changed!"):
        calibrator.collect(torch.ones(3, 3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [MaxCalibrator, HistogramCalibrator])
def test_non_finite_values_are_refused(make: type[_Calibrator], bad: float) -> None:
    with pytest.raises(IntactError, match=r"NaN or infinity in a tensor of shape \(2,\)"):
        make(8, None, False).collect(torch.tensor([1.0, bad]))


def test_an_empty_batch_changes_nothing() -> None:
    for calibrator in (MaxCalibrator(), HistogramCalibrator()):
        calibrator.collect(torch.ones(0, 3))
        assert "None" in repr(calibrator)


# ---- histogram ----


def test_the_first_batch_sets_the_width_and_later_ones_append() -> None:
    calibrator = HistogramCalibrator(num_bins=8)
    calibrator.collect(torch.tensor([0.0, 0.15, -0.45, 0.8]))
    width = calibrator._width
    assert width == pytest.approx(0.1) and calibrator._counts.tolist() == [1, 1, 0, 0, 1, 0, 0, 1]
    calibrator.collect(torch.tensor([1.05, -0.05]))
    assert calibrator._width == width and calibrator._counts.tolist() == [2, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    assert calibrator._calib_bin_edges[-1] == pytest.approx(1.1)
    calibrator.reset()
    assert calibrator._num_bins == 8 and calibrator._calib_hist is None


def test_counts_are_exact_integers_and_stay() -> None:
    calibrator = HistogramCalibrator()
    for _ in range(3):
        calibrator.collect(torch.randn(10_000, generator=torch.Generator().manual_seed(7)))
    before = calibrator._counts.copy()
    assert before.dtype == np.int64 and before.sum() == 30_000
    results = {m: calibrator.compute_amax(m) for m in ("entropy", "mse", "percentile")}
    assert np.array_equal(before, calibrator._counts)
    for method, amax in results.items():
        want = amax_from_counts(before, calibrator._width, 8, False, method)
        assert amax.dtype == torch.float32 and amax.dim() == 0 and float(amax) == np.float32(want)
    assert calibrator.compute_amax("percentile", percentile=50.0) < results["percentile"]
    assert calibrator.compute_amax("mse", stride=7, start_bin=200) > 0


def test_zeros_first() -> None:
    calibrator = HistogramCalibrator()
    calibrator.collect(torch.zeros(5))
    assert calibrator.compute_amax("entropy") == 0
    calibrator.collect(torch.tensor([1.0, 0.0]))
    assert calibrator._counts[0] == 6 and calibrator._counts.sum() == 7


def test_denormal_values_count_as_zero() -> None:
    calibrator = HistogramCalibrator()
    calibrator.collect(torch.tensor([1e-44, 0.0]))
    assert calibrator.compute_amax("mse") == 0


def test_bins_do_not_eat_the_memory() -> None:
    calibrator = HistogramCalibrator()
    calibrator.collect(torch.tensor([1e-6]))
    with pytest.raises(RuntimeError, match="got a value of 1e\\+06 where the first batch set bins of"):
        calibrator.collect(torch.tensor([1e6]))


def test_skip_zeros() -> None:
    calibrator = HistogramCalibrator(skip_zeros=True)
    calibrator.collect(torch.zeros(5))
    calibrator.collect(torch.tensor([1.0, 0.0, 1e-9]))
    assert calibrator._counts.sum() == 2


def test_old_arguments_are_accepted() -> None:
    calibrator = HistogramCalibrator(8, None, False, 128, "append", False, False)
    calibrator.collect(torch.linspace(-1, 1, 100))
    assert str(calibrator) == "HistogramCalibrator(calib_bin_edges=[0.000, ..., 1.000](129))"
    assert "calib_hist=" in repr(calibrator) and "num_bits=8 axis=None unsigned=False" in repr(calibrator)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes(dtype: torch.dtype) -> None:
    x = torch.randn(1000).to(dtype)
    first, other = HistogramCalibrator(), HistogramCalibrator()
    first.collect(x)
    other.collect(x.float())
    assert np.array_equal(first._counts, other._counts)


def test_bad_use() -> None:
    with pytest.raises(NotImplementedError, match="only supports per tensor"):
        HistogramCalibrator(axis=0)
    with pytest.raises(TypeError, match="Unknown calibration method 'max'"):
        HistogramCalibrator().compute_amax("max")
    with pytest.raises(TypeError, match="Unknown calibration method None"):
        HistogramCalibrator().compute_amax()
    assert HistogramCalibrator().compute_amax("mse") is None


def test_text_of_the_max_calibrator() -> None:
    calibrator = MaxCalibrator(4, 0, True, track_amax=True)
    assert str(calibrator) == "MaxCalibrator(track_amax=True)"
    assert repr(calibrator).startswith("MaxCalibrator(num_bits=4 axis=0 unsigned=True calib_amax=None")


# ---- weights ----


def weights_model() -> nn.Module:
    return nn.Sequential(
        quant_nn.QuantConv2d(3, 4, 3), quant_nn.QuantConvTranspose2d(4, 2, 3), quant_nn.QuantLinear(2, 5)
    )


@pytest.mark.parametrize("method", ["max", "mse", "percentile"])
def test_calibrate_weights_per_channel(method: str) -> None:
    model = weights_model()
    calibrate_weights(model, method=method, percentile=99.0)
    for module, shape, axis in zip(model, [(4, 1, 1, 1), (1, 2, 1, 1), (5, 1)], [0, 1, 0], strict=True):
        amax, peak = module.weight_quantizer.amax, numerics.absmax(module.weight.detach().numpy(), axis)
        assert amax.shape == shape
        assert (amax > 0).all() and (amax.flatten().numpy() <= peak).all()
        assert method != "max" or np.array_equal(amax.flatten().numpy(), peak)


@pytest.mark.parametrize("method", ["max", "mse", "percentile"])
def test_calibrate_weights_per_tensor(method: str) -> None:
    desc = QuantDescriptor()
    model = nn.Sequential(quant_nn.QuantLinear(2, 5, quant_desc_weight=desc))
    calibrate_weights(model, method, perchannel=False, num_bins=256)
    assert model[0].weight_quantizer.amax.shape == () and model[0].weight_quantizer.amax > 0


def test_calibrate_weights_meets_an_all_zero_channel() -> None:
    model = weights_model()
    with torch.no_grad():
        model[0].weight[1].zero_()
    calibrate_weights(model)
    assert model[0].weight_quantizer.amax[1] == 0


def test_calibrate_weights_refuses_an_unknown_method() -> None:
    with pytest.raises(TypeError, match="Unsupported calibration method 'entropy'"):
        calibrate_weights(weights_model(), "entropy")


# ---- utils ----


def test_reduce_amax() -> None:
    x = torch.tensor([[1.0, -3.0], [2.0, 0.5]], requires_grad=True)
    assert reduce_amax(x) == 3 and reduce_amax(x).shape == () and not reduce_amax(x).requires_grad
    assert reduce_amax(x, axis=0).tolist() == [[2, 3]] and reduce_amax(x, axis=(0, 1)).shape == (1, 1)
    assert reduce_amax(x, axis=[1], keepdims=False).tolist() == [3, 2]
    assert torch.equal(reduce_amax(x, axis=[]), x.abs())


def test_reset_logger_handler() -> None:
    quant_logging.LOGGER.addHandler(quant_logging.logging.NullHandler())
    quant_logging.reset_logger_handler()
    assert quant_logging.LOGGER.handlers == [] and quant_logging.LOGGER.propagate


# ---- what public scripts reach for ----


@pytest.mark.parametrize("make", [MaxCalibrator, HistogramCalibrator, MergeableCalibrator])
def test_whole_numbers_are_collected_as_their_floats(make: type[_Calibrator]) -> None:
    calibrators = make(8, None, False), make(8, None, False)
    for calibrator, dtype in zip(calibrators, (torch.int64, torch.float32), strict=True):
        calibrator.collect(torch.tensor([0, -3, 200], dtype=dtype))
    method = ["mse"] if make is HistogramCalibrator else []
    assert torch.equal(*(calibrator.compute_amax(*method) for calibrator in calibrators))


def test_the_range_of_a_max_calibrator_can_be_set() -> None:
    calibrator = MaxCalibrator()
    calibrator._calib_amax = torch.tensor(3.0)
    calibrator.collect(torch.tensor([1.0]))
    assert calibrator.compute_amax() == 3
    calibrator._calib_amax = None
    assert calibrator.compute_amax() is None


@pytest.mark.parametrize("torch_hist", [True, False])
def test_methods_on_bare_counts_agree_with_the_calibrator(torch_hist: bool) -> None:
    calibrator = HistogramCalibrator(torch_hist=torch_hist)
    calibrator._num_bins = 512
    calibrator.collect(torch.randn(1000, generator=torch.Generator().manual_seed(3)))
    counts, edges = calibrator._calib_hist, calibrator._calib_bin_edges
    assert len(counts) == len(edges) - 1 == 512 and isinstance(
        counts, torch.Tensor if torch_hist else np.ndarray
    )
    for method, function, options in (
        ("entropy", histogram._compute_amax_entropy, (8, False)),
        ("mse", histogram._compute_amax_mse, (8, False)),
        ("percentile", histogram._compute_amax_percentile, (99.0,)),
    ):
        method_options = {"percentile": 99.0} if method == "percentile" else {}
        torch.testing.assert_close(
            function(counts, edges, *options), calibrator.compute_amax(method, **method_options)
        )
        assert function(None, None, *options) is None
