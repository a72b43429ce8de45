"""`intact.torch.calibrate`: one pass over data, ranges by any method, chosen again without data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact.torch
from intact import numerics
from intact.calib import METHODS, Calibration, Histogram, ZeroRangeWarning, amax_of
from intact.errors import CalibrationError, QuantValueError
from intact.spec import QuantSpec
from intact.torch import CalibrationResult
from intact.torch.calib.mergeable import MergeableCalibrator
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.tensor_quant import QuantDescriptor


class Net(nn.Module):
    """A convolution with BatchNorm and dropout, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn(self.conv(x)))
        return self.head(self.drop(x).mean((2, 3)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(1)
    model = Net()
    intact.torch.replace_modules(model)
    return model


def batches(count: int = 6, size: int = 8, seed: int = 0) -> list[Tensor]:
    """Images with a few outliers, so that the methods differ."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count * size, 3, 8, 8, generator=generator)
    return list((x**3).split(size))


def ranges(model: nn.Module) -> dict[str, Tensor]:
    return {n: b.clone() for n, b in model.named_buffers() if n.endswith(("_amax", "_amin"))}


def calibrate(model: nn.Module, data: Any, **options: Any) -> CalibrationResult:
    """Ranges as the methods choose them; the tests of short scales ask for those."""
    return intact.torch.calibrate(model, data, progress=False, **({"scale_bits": None} | options))


# ---- what it sets ----


def test_every_scale_is_short_by_default(net: Net) -> None:
    intact.torch.calibrate(net, batches(), progress=False)
    for quantizer in (q for q in net.modules() if isinstance(q, TensorQuantizer)):
        scale = numerics.scale_from_amax(quantizer.amax.numpy(), QuantSpec("int8"))
        sixteenths = np.frexp(scale.astype(np.float64))[0] * 16
        assert (sixteenths == np.floor(sixteenths)).all()


@pytest.mark.parametrize("weight_method", ["max", "mse"])
def test_short_scales_widen_the_ranges_that_the_methods_chose(net: Net, weight_method: str) -> None:
    options = {"method": "percentile", "weight_method": weight_method}
    result = calibrate(net, batches(), **options)
    exact = {n: q.amax.clone() for n, q in net.named_modules() if isinstance(q, TensorQuantizer)}
    result.apply(**options, scale_bits=3)
    for name, amax in exact.items():
        want = numerics.short_amax(amax.numpy(), QuantSpec("int8"), bits=3)
        np.testing.assert_array_equal(net.get_submodule(name).amax.numpy(), want)


@pytest.mark.parametrize("method", METHODS)
def test_activations_have_the_range_of_the_method_on_all_data(net: Net, method: str) -> None:
    calibrate(net, batches(), method=method, least_values=0)
    whole = Histogram()
    whole.collect(torch.cat(batches()).numpy())
    assert net.conv.input_quantizer.amax.item() == amax_of(whole, QuantSpec("int8"), method)


def test_weights_have_their_largest_magnitude_per_channel_without_data(net: Net) -> None:
    calibrate(net, batches())
    want = net.conv.weight.detach().abs().amax((1, 2, 3), keepdim=True)
    assert torch.equal(net.conv.weight_quantizer.amax, want)
    assert torch.equal(net.head.weight_quantizer.amax, net.head.weight.detach().abs().amax(1, keepdim=True))


def test_weights_may_have_another_method(net: Net) -> None:
    calibrate(net, batches(), weight_method="mse")
    stats = Histogram(0)
    stats.collect(net.conv.weight.detach().numpy())
    want = amax_of(stats, QuantSpec("int8", axis=0), "mse")
    np.testing.assert_array_equal(net.conv.weight_quantizer.amax.numpy().reshape(-1), want)


@pytest.mark.parametrize("axis", [None, 0])
def test_options_reach_the_method_of_the_weights(axis: int | None) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 300))
    intact.torch.replace_modules(model, quant_desc_weight=QuantDescriptor(axis=axis))
    calibrate(model, [torch.randn(4, 64)], weight_method="percentile", percentile=50)
    stats = Histogram(axis)
    stats.collect(model[0].weight.detach().numpy())
    want = amax_of(stats, QuantSpec("int8", axis=axis), "percentile", percentile=50)
    np.testing.assert_array_equal(model[0].weight_quantizer.amax.numpy().reshape(-1), want.reshape(-1))


@pytest.mark.parametrize("size", [1, 5, 48])
def test_the_batch_size_does_not_matter(net: Net, size: int) -> None:
    images = torch.cat(batches())
    calibrate(net, [images], method="entropy")
    want = net.conv.input_quantizer.amax.clone()
    calibrate(net, images.split(size), method="entropy")
    assert torch.equal(net.conv.input_quantizer.amax, want)


def test_num_batches_stops_early(net: Net) -> None:
    data = batches()
    result = calibrate(net, data, method="max", num_batches=2)
    assert net.conv.input_quantizer.amax == torch.cat(data[:2]).abs().max()
    assert result.calibration.provenance[0]["batches"] == 2


def test_every_calibrator_kind_is_replaced_for_the_collection_and_put_back() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(*(TensorQuantizer(QuantDescriptor(calib_method=m)) for m in ("max", "histogram")))
    before = [quantizer._calibrator for quantizer in model]
    calibrate(model, batches(), method="mse")
    assert [quantizer._calibrator for quantizer in model] == before
    assert torch.equal(model[0].amax, model[1].amax)


def test_a_mergeable_quantizer_keeps_the_counts_for_load_calib_amax() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(calib_method="mergeable"))
    calibrate(quantizer, batches(), method="max")
    assert isinstance(quantizer._calibrator, MergeableCalibrator)
    quantizer.load_calib_amax("mse")
    want = quantizer.amax.clone()
    calibrate(quantizer, batches(), method="mse")
    assert torch.equal(quantizer.amax, want)


def test_an_asymmetric_quantizer_gets_both_ends() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(symmetric=False))
    calibrate(quantizer, [torch.tensor([-1.0, 3.0])], method="max")
    assert (quantizer._amin.item(), quantizer._amax.item()) == (-1.0, 3.0)


def test_a_learned_range_starts_at_the_calibrated_one() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(learn_amax=True))
    calibrate(quantizer, [torch.tensor([-5.0, 3.0])], method="max")
    assert (quantizer.clip.clip_value_min.item(), quantizer.clip.clip_value_max.item()) == (-5.0, 5.0)


def test_unsigned_takes_the_unsigned_grid_where_nothing_is_negative(net: Net) -> None:
    calibrate(net, batches(), unsigned=True)
    assert net.head.input_quantizer.unsigned
    assert not net.conv.input_quantizer.unsigned
    assert not net.head.weight_quantizer.unsigned


def test_recurrent_weights_are_calibrated_too() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.LSTM(4, 3))
    intact.torch.replace_modules(model)
    calibrate(model, [torch.randn(5, 2, 4)])
    both = torch.cat([model[0].weight_ih_l0, model[0].weight_hh_l0], 1).detach()
    assert torch.equal(model[0]._weight_quantizers[0].amax, both.abs().amax(1, keepdim=True))


# ---- choosing again ----


@pytest.mark.parametrize("method", [*METHODS, "auto"])
def test_apply_gives_what_calibrate_would_have_given(net: Net, method: str) -> None:
    calibrate(net, batches(), method=method)
    want = ranges(net)
    calibrate(net, batches(), method="max").apply(method, scale_bits=None)
    got = ranges(net)
    assert got.keys() == want.keys()
    assert all(torch.equal(got[name], want[name]) for name in want)


def test_options_of_a_method_are_passed_on(net: Net) -> None:
    result = calibrate(net, batches(), method="percentile", percentile=90)
    low = net.conv.input_quantizer.amax.clone()
    result.apply("percentile", percentile=99.9, scale_bits=None)
    assert low < net.conv.input_quantizer.amax


def test_a_method_per_name_pattern(net: Net) -> None:
    result = calibrate(net, batches(), method={"conv": "max", "head._input*": "entropy"})
    assert result.methods["conv._input_quantizer"] == "max"
    assert result.methods["head._input_quantizer"] == "entropy"


def test_a_pattern_that_fits_nothing_is_refused(net: Net) -> None:
    with pytest.raises(QuantValueError, match=r"pattern 'tail\.\*', which fits no quantizer of data"):
        calibrate(net, batches(), method={"tail.*": "max"})


@pytest.mark.parametrize("options", [{"method": "best"}, {"weight_method": "auto"}], ids=str)
def test_an_unknown_method_is_refused(net: Net, options: dict[str, str]) -> None:
    with pytest.raises(
        QuantValueError, match=r"method: got '(best|auto)', want one of \('max', 'percentile'"
    ):
        calibrate(net, batches(), **options)


def test_statistics_travel_in_a_file(net: Net, tmp_path: Any) -> None:
    result = calibrate(net, batches(), method="entropy")
    want = ranges(net)
    result.save(tmp_path / "net.calib")
    torch.manual_seed(1)
    other = Net()
    intact.torch.replace_modules(other)
    CalibrationResult.load(tmp_path / "net.calib", other).apply("entropy", scale_bits=None)
    assert all(torch.equal(ranges(other)[name], want[name]) for name in want)
    assert list(Calibration.load(tmp_path / "net.calib")) == [
        "conv._input_quantizer",
        "head._input_quantizer",
    ]


def test_a_file_of_another_model_is_refused_by_name(net: Net, tmp_path: Any) -> None:
    Calibration({"other": Histogram()}).save(tmp_path / "other.calib")
    with pytest.raises(CalibrationError, match=r"quantizer 'conv\._input_quantizer': got no statistics"):
        CalibrationResult.load(tmp_path / "other.calib", net).apply("max")


# ---- auto ----


def test_auto_takes_the_configuration_that_changes_the_outputs_least(net: Net) -> None:
    data = batches()
    net.eval()
    want = torch.cat([net_float(net, x) for x in data[:4]])
    result = calibrate(net, data)
    measured = {}
    for method in METHODS:
        result.apply(method, scale_bits=None)
        with torch.no_grad():
            got = torch.cat([net(x) for x in data[:4]])
        measured[method] = float((got - want).double().square().sum() / want.double().square().sum())
    result.apply("auto", scale_bits=None)
    assert set(result.errors) == {"least expected error", *METHODS}
    for method in METHODS:
        assert result.errors[method] == pytest.approx(measured[method], rel=1e-6)
    with torch.no_grad():
        got = torch.cat([net(x) for x in data[:4]])
    chosen = float((got - want).double().square().sum() / want.double().square().sum())
    assert chosen == pytest.approx(min(result.errors.values()), rel=1e-6)


@torch.no_grad()
def net_float(model: nn.Module, x: Tensor) -> Tensor:
    quantizers = [m for m in model.modules() if isinstance(m, TensorQuantizer)]
    for quantizer in quantizers:
        quantizer.disable()
    y = model(x)
    for quantizer in quantizers:
        quantizer.enable()
    return y


def test_auto_on_a_file_takes_the_least_expected_error(net: Net, tmp_path: Any) -> None:
    calibrate(net, batches(), method="mse").save(tmp_path / "net.calib")
    mse = ranges(net)
    result = CalibrationResult.load(tmp_path / "net.calib", net).apply("auto", scale_bits=None)
    assert result.errors == {}
    assert all(torch.equal(ranges(net)[name], mse[name]) for name in mse)


# ---- the forms of a batch ----


class Doubles(nn.Module):
    """Takes its inputs as x and scale."""

    def __init__(self) -> None:
        super().__init__()
        self.quantizer = TensorQuantizer()

    def forward(self, x: Tensor, scale: Tensor) -> dict[str, Tensor]:
        return {"y": self.quantizer(x * scale)}


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(lambda x, s: {"x": x, "scale": s}, id="dict"),
        pytest.param(lambda x, s: ((x, s), torch.zeros(2)), id="tuple of a tuple"),
        pytest.param(lambda x, s: [{"x": x, "scale": s}, torch.zeros(2)], id="list of a dict"),
    ],
)
def test_forms_of_a_batch(batch: Callable[[Tensor, Tensor], Any]) -> None:
    model = Doubles()
    calibrate(model, [batch(torch.tensor([1.0, -3.0]), torch.tensor(2.0))], method="max")
    assert model.quantizer.amax == 6.0


def test_forward_says_how_a_model_takes_a_batch() -> None:
    model = Doubles()
    calibrate(model, [5.0], method="max", forward=lambda m, b: m(torch.tensor([b]), torch.tensor(2.0)))
    assert model.quantizer.amax == 10.0


def test_a_batch_of_another_form_is_refused() -> None:
    with pytest.raises(QuantValueError, match="batch: got a str, want a tensor"):
        calibrate(TensorQuantizer(), ["image.png"])


def test_a_loader_and_a_generator_will_do(net: Net) -> None:
    images = torch.cat(batches())
    dataset = torch.utils.data.TensorDataset(images, torch.zeros(len(images)))
    calibrate(net, torch.utils.data.DataLoader(dataset, batch_size=10, shuffle=True), method="mse")
    want = net.conv.input_quantizer.amax.clone()
    calibrate(net, (x for x in batches()), method="mse")
    assert torch.equal(net.conv.input_quantizer.amax, want)


# ---- what stays as it was ----


def test_every_module_keeps_its_mode_and_statistics(net: Net) -> None:
    net.train()
    net.bn.eval()
    mean = net.bn.running_mean.clone()
    calibrate(net, batches())
    assert net.training and net.drop.training and not net.bn.training
    assert torch.equal(net.bn.running_mean, mean)


def test_a_disabled_quantizer_stays_disabled_and_without_range(net: Net) -> None:
    net.head.input_quantizer.disable()
    calibrate(net, batches())
    assert net.head.input_quantizer._disabled
    assert not hasattr(net.head.input_quantizer, "_amax")


def nan_batches() -> Iterator[Tensor]:
    yield batches()[0]
    yield torch.full((1, 3, 8, 8), float("nan"))


def test_a_nan_names_the_quantizer_and_changes_nothing(net: Net) -> None:
    calibrate(net, batches(), method="max")
    net.train()
    switches = [vars(m).copy() for m in net.modules() if isinstance(m, TensorQuantizer)]
    before = ranges(net)
    with pytest.raises(CalibrationError, match=r"conv\._input_quantizer: x: got 192 NaN and 0 infinities"):
        calibrate(net, nan_batches(), method="mse")
    after = [vars(m) for m in net.modules() if isinstance(m, TensorQuantizer)]
    for was, now in zip(switches, after, strict=True):
        for switch in ("_if_quant", "_if_calib", "_if_clip", "_disabled", "_calibrator"):
            assert now[switch] is was[switch]
    assert all(torch.equal(ranges(net)[name], before[name]) for name in before)
    assert net.training


def test_no_batch_is_an_error(net: Net) -> None:
    with pytest.raises(CalibrationError, match=r"no value in any batch \(2 of 2 quantizers\)"):
        calibrate(net, [])


def test_a_quantizer_that_no_batch_reaches_is_named(net: Net) -> None:
    net.unused = TensorQuantizer()
    with pytest.raises(CalibrationError, match=r"quantizer 'unused': got no value in any batch \(1 of 3"):
        calibrate(net, batches())
    net.unused.disable()
    calibrate(net, batches())


class Drawing(nn.Module):
    """Answers in another size at every call, as speech of drawn lengths has it."""

    def __init__(self, axes: int) -> None:
        super().__init__()
        self.head, self.calls, self.axes = nn.Linear(3, 4), 0, axes

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.head(x).repeat(self.calls, self.calls if self.axes == 2 else 1)


def _output_errors(model: nn.Module) -> np.ndarray:
    intact.torch.replace_modules(model)
    result = calibrate(model, [torch.randn(5, 3)], method="max", correct_bias="auto")
    quantizers = {n: q for n, q in model.named_modules() if isinstance(q, TensorQuantizer)}
    return result.output_errors(quantizers)[0]


def test_an_answer_of_another_size_counts_as_lost() -> None:
    error, square = _output_errors(Drawing(axes=2))
    assert error == square > 0


def test_an_answer_with_more_rows_is_compared_to_the_nearest_of_them() -> None:
    error, square = _output_errors(Drawing(axes=1))
    assert 0 < error < 0.01 * square


def test_a_model_without_quantizers_is_refused() -> None:
    with pytest.raises(QuantValueError, match="model: got a Linear without an enabled TensorQuantizer"):
        calibrate(nn.Linear(2, 2), [torch.zeros(1, 2)])


def test_a_tensor_of_zeros_is_warned_about_by_name(net: Net) -> None:
    with torch.no_grad():
        net.conv.weight[3] = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrate(net, [torch.zeros(2, 3, 8, 8)], method="max")
    texts = [str(w.message) for w in caught if w.category is ZeroRangeWarning]
    assert "quantizer 'conv._input_quantizer': its tensor is zero throughout; the scale there is 1" in texts
    weights = "quantizer 'conv._weight_quantizer': 1 of 8 channels of its tensor are zero throughout"
    assert any(text.startswith(weights) for text in texts)
    spec = QuantSpec("int8")
    assert numerics.scale_from_amax(net.conv.input_quantizer.amax.numpy(), spec) == 1


# ---- the calibrator ----


def test_mergeable_calibrators_merge_to_what_one_would_have_seen() -> None:
    merged, left, right = MergeableCalibrator(), MergeableCalibrator(), MergeableCalibrator()
    data = batches()
    for x in data:
        merged.collect(x)
    for x in data[:2]:
        left.collect(x)
    for x in reversed(data[2:]):
        right.collect(x)
    left.stats.merge(right.stats)
    assert left.stats == merged.stats
    assert torch.equal(left.compute_amax("entropy"), merged.compute_amax("entropy"))


@pytest.mark.parametrize(
    ("axis", "shape"), [(1, (1, 3, 1, 1)), ((0, 1), (8, 3, 1, 1)), ((-1,), (1, 1, 1, 8))]
)
def test_a_mergeable_calibrator_keeps_reduced_axes(axis: Any, shape: tuple[int, ...]) -> None:
    calibrator, x = MergeableCalibrator(axis=axis), batches()[0]
    assert calibrator.compute_amax() is None
    calibrator.collect(x)
    other_axes = [a for a in range(4) if shape[a] == 1]
    assert calibrator.compute_amax().shape == shape
    assert torch.equal(calibrator.compute_amax(), x.abs().amax(other_axes, keepdim=True))
    calibrator.reset()
    assert calibrator.compute_amax() is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_a_mergeable_calibrator_reads_every_real_dtype_and_layout(dtype: torch.dtype) -> None:
    x = batches()[0].to(dtype)
    plain, strided = MergeableCalibrator(), MergeableCalibrator()
    plain.collect(x.float())
    strided.collect(x.permute(2, 0, 3, 1))
    assert plain.stats == strided.stats
