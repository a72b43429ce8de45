"""TensorQuantizer and Clip: every mode, the printed line, states of the old library."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch import nn

from intact import numerics
from intact.errors import IntactError
from intact.spec import Format, QuantSpec
from intact.torch import calib
from intact.torch.nn import TensorQuantizer
from intact.torch.nn.modules.tensor_quantizer import name_quantizers
from intact.torch.operators import fake_quantize as ops
from intact.torch.tensor_quant import QuantDescriptor, fake_tensor_quant, tensor_quant


def make(**desc: object) -> TensorQuantizer:
    return TensorQuantizer(QuantDescriptor(**desc))  # type: ignore[arg-type]


def calibrated_quantizer(x: torch.Tensor, *args: object, **desc: object) -> TensorQuantizer:
    quantizer = make(**desc)
    quantizer.enable_calib()
    quantizer.disable_quant()
    quantizer(x)
    quantizer.load_calib_amax(*args)
    quantizer.disable_calib()
    quantizer.enable_quant()
    return quantizer


# ---- what it computes ----


def test_the_guides_unsigned_four_bit_codes() -> None:
    quantizer = make(num_bits=4, fake_quant=False, axis=(0), unsigned=True)
    torch.manual_seed(12345)
    codes = quantizer(torch.rand(10, 9, 8, 7))
    first, last = codes[0, 0], codes[-1, -1]
    assert first[:3, :3].tolist() == [[15, 13, 15], [9, 5, 3], [3, 7, 11]]
    assert first[:3, -3:].tolist() == [[1, 3, 6], [12, 14, 4], [5, 10, 6]]
    assert last[-3:, :3].tolist() == [[8, 1, 6], [7, 5, 13], [14, 10, 11]]
    assert last[-3:, -3:].tolist() == [[7, 11, 10], [3, 7, 14], [2, 14, 9]]
    assert quantizer.scale.shape == (10, 1, 1, 1)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)], ids=str)
@pytest.mark.parametrize("bits", [4, 8, (4, 3), (5, 2)], ids=str)
def test_calibrated_equals_numerics(axis: int | tuple[int, ...] | None, bits: int | tuple[int, int]) -> None:
    x = torch.randn(3, 4, 5)
    quantizer = calibrated_quantizer(x, num_bits=bits, axis=axis)
    spec = QuantSpec(Format.parse(quantizer.format), axis=axis)
    amax = numerics.absmax(x.numpy(), axis)
    want = numerics.fake_quantize(x.numpy(), numerics.scale_from_amax(amax, spec), 0, spec)
    assert np.array_equal(quantizer(x).numpy(), want)
    assert np.array_equal(quantizer.amax.flatten().numpy(), amax.flatten())
    assert torch.equal(make(num_bits=bits, axis=axis)(x), quantizer(x)), "dynamic range of the same batch"


@pytest.mark.parametrize("axis", [None, 1], ids=str)
@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
def test_asymmetric_equals_numerics(axis: int | None, unsigned: bool) -> None:
    x = torch.rand(3, 4, 5) * 3 - 1
    quantizer = calibrated_quantizer(x, axis=axis, symmetric=False, unsigned=unsigned)
    spec = QuantSpec(Format.parse(quantizer.format), axis=axis, symmetric=False)
    scale, zero_point = numerics.affine_from_range(*numerics.minmax(x.numpy(), axis), spec)
    assert np.array_equal(quantizer(x).numpy(), numerics.fake_quantize(x.numpy(), scale, zero_point, spec))
    assert set(quantizer.state_dict()) == {"_amax", "_amin"}
    assert torch.equal(make(axis=axis, symmetric=False, unsigned=unsigned)(x), quantizer(x))


def test_narrow_range_is_honoured_in_both_modes() -> None:
    x = torch.tensor([-2.0, 1.0])
    for narrow, code in ((False, -128), (True, -127)):
        assert make(amax=1.0, narrow_range=narrow, fake_quant=False)(x)[0] == code
        assert make(amax=1.0, narrow_range=narrow)(x)[0] == np.float32(code) * (
            np.float32(1) / np.float32(127)
        )


def test_a_zero_range_keeps_scale_one() -> None:
    assert make(amax=0.0)(torch.tensor([0.4, 2.6, 500.0])).tolist() == [0, 3, 127]


def test_an_amax_given_as_an_array_wins_over_axis() -> None:
    x = torch.randn(2, 3)
    along_columns = make(axis=0, amax=[[1.0, 2.0, 3.0]])
    assert torch.equal(
        along_columns(x), fake_tensor_quant(x, torch.tensor([[1.0, 2.0, 3.0]]), 8, False, False)
    )
    one_for_all = make(axis=0, amax=1)
    assert torch.equal(one_for_all(x), fake_tensor_quant(x, 1.0, 8, False, False))


def test_an_amax_in_granule_shape_follows_the_axis() -> None:
    x = torch.randn(3, 3)
    for fake in (True, False):
        flat, column = (
            make(axis=0, amax=a, fake_quant=fake) for a in ([1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]])
        )
        assert torch.equal(flat(x), column(x))


def test_scale_amax_multiplies() -> None:
    x = torch.randn(10)
    assert torch.equal(make(amax=2.0, scale_amax=0.5)(x), make(amax=1.0)(x))
    assert torch.equal(make(scale_amax=0.5)(x), make(amax=float(x.abs().max()) * 0.5)(x))


def test_order_of_the_stages() -> None:
    x = torch.randn(8)
    quantizer = make(amax=1.0)
    quantizer.pre_quant_scale = 2.0
    assert torch.equal(quantizer(x), make(amax=1.0)(x * 2))
    quantizer.disable()
    assert torch.equal(quantizer(x), x * 2), "applies even when disabled"
    quantizer.enable()
    quantizer.enable_calib()
    quantizer(x)
    assert quantizer._calibrator.compute_amax() == (x * 2).abs().max()


def test_the_gradient_passes_inside_the_range() -> None:
    x = torch.tensor([-2.0, 0.3, 1.0, 1.1], requires_grad=True)
    make(amax=1.0)(x).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]


def test_compiles_whole_and_exports() -> None:
    x = torch.randn(2, 3, 4)
    for quantizer in (
        calibrated_quantizer(x, axis=1),
        calibrated_quantizer(x, symmetric=False),
        make(axis=1),
        make(unsigned=True),
    ):
        y = x.abs() if quantizer.unsigned else x
        assert torch.equal(torch.compile(quantizer, fullgraph=True, backend="aot_eager")(y), quantizer(y))
        torch._dynamo.reset()
    program = torch.export.export(calibrated_quantizer(x, axis=1), (x,))
    assert [n.target for n in program.graph.nodes].count(ops.torch.ops.intact.fake_quantize.default) == 1


# ---- learned range ----


@pytest.mark.rule("N18")
def test_a_learned_range_clips_once_with_pacts_gradient() -> None:
    quantizer = make(learn_amax=True, amax=1.0)
    x = torch.tensor([-3.0, -1.0, 0.25, 1.0, 2.0, 9.0], requires_grad=True)
    y = quantizer(x)
    assert torch.equal(y, fake_tensor_quant(x.detach().clamp(-1, 1), 1.0, 8, False, False))
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 1, 0, 0, 0]
    assert quantizer.clip.clip_value_min.grad == 2 and quantizer.clip.clip_value_max.grad == 3


def test_a_learned_range_follows_its_bounds_and_stops() -> None:
    quantizer = make(learn_amax=True)
    with torch.no_grad():
        quantizer.clip.clip_value_max.fill_(2.0)
    x = torch.randn(20) * 3
    assert torch.equal(quantizer(x), fake_tensor_quant(x.clamp(-1, 2), 2.0, 8, False, False))
    quantizer.disable_clip()
    assert not any(p.requires_grad for p in quantizer.parameters())
    assert torch.equal(quantizer(x), fake_tensor_quant(x.clamp(-1, 2), 2.0, 8, False, False))


def test_a_learned_range_starts_at_the_calibrated_one() -> None:
    quantizer = make(learn_amax=True)
    quantizer.amax = 3.5
    quantizer.init_learn_amax()
    assert quantizer.clip.clip_value_max == 3.5 and quantizer.clip.clip_value_min == -3.5
    assert {n for n, _ in quantizer.named_parameters()} == {"clip.clip_value_min", "clip.clip_value_max"}
    assert set(quantizer.state_dict()) == {"_amax", "clip.clip_value_min", "clip.clip_value_max"}


# ---- what it prints ----


def with_amax(amax: object, **desc: object) -> TensorQuantizer:
    quantizer = make(**desc)
    quantizer.amax = amax
    return quantizer


CALIBRATOR = "calibrator=MaxCalibrator(track_amax=False)"
HISTOGRAM = "calibrator=HistogramCalibrator(calib_bin_edges=None)"


def switch(quantizer: TensorQuantizer, *calls: str) -> TensorQuantizer:
    for call in calls:
        getattr(quantizer, call)()
    return quantizer


@pytest.mark.parametrize(
    ("quantizer", "line"),
    [
        (with_amax(2.64), f"8bit fake per-tensor amax=2.6400 {CALIBRATOR} quant"),
        (
            with_amax(torch.linspace(0, 0.7817, 64).view(64, 1, 1, 1), axis=(0)),
            f"8bit fake axis=(0) amax=[0.0000, 0.7817](64) {CALIBRATOR} quant",
        ),
        (make(), f"8bit fake per-tensor amax=dynamic {CALIBRATOR} quant"),
        (make(axis=(0, 1)), f"8bit fake axis=(0, 1) amax=dynamic {CALIBRATOR} quant"),
        (make(calib_method="histogram"), f"8bit fake per-tensor amax=dynamic {HISTOGRAM} quant"),
        (
            make(num_bits=4, unsigned=True, narrow_range=True, fake_quant=False, scale_amax=0.5, amax=1),
            f"unsigned 4bit narrow per-tensor amax=1.0000 *0.5 {CALIBRATOR} quant",
        ),
        (make(learn_amax=True), f"8bit fake per-tensor amax=dynamic learned {CALIBRATOR} quant clip"),
        (make(num_bits=(4, 3)), f"(4, 3)bit fake per-tensor amax=dynamic {CALIBRATOR} quant"),
        (
            switch(make(), "enable_calib", "disable_quant"),
            f"8bit fake per-tensor amax=dynamic {CALIBRATOR} calib",
        ),
        (switch(make(amax=1), "disable"), "disabled"),
    ],
    ids=[
        "amax",
        "channels",
        "dynamic",
        "axes",
        "histogram",
        "unsigned",
        "learned",
        "fp8",
        "calib",
        "disabled",
    ],
)
def test_the_printed_line(quantizer: TensorQuantizer, line: str) -> None:
    assert quantizer.extra_repr() == line
    if not list(quantizer.children()):
        assert repr(quantizer) == f"TensorQuantizer({line})"


def test_the_line_of_intacts_own_modes() -> None:
    quantizer = make(symmetric=False)
    quantizer.set_range(-0.5, 1.5)
    quantizer.pre_quant_scale = 2.0
    line = (
        f"8bit fake asymmetric per-tensor amax=1.5000 amin=-0.5000 pre_quant_scale=2.0000 {CALIBRATOR} quant"
    )
    assert quantizer.extra_repr() == line


# ---- properties ----


def test_properties() -> None:
    quantizer = make(amax=2.54)
    assert (quantizer.num_bits, quantizer.unsigned, quantizer.narrow_range) == (8, False, False)
    assert quantizer.maxbound == 127 and quantizer.step_size.item() == pytest.approx(0.02)
    quantizer.num_bits, quantizer.unsigned, quantizer.narrow_range = 4, True, True
    assert (quantizer.format, quantizer.maxbound, quantizer.narrow_range) == ("uint4", 15, True)
    assert repr(quantizer._calibrator).startswith("MaxCalibrator(num_bits=4 axis=None unsigned=True")
    assert make(num_bits=(4, 3), amax=448.0).step_size == 1 and make(num_bits=(5, 2)).maxbound == 57344
    assert quantizer.axis is None and quantizer.fake_quant is True
    with pytest.raises(AttributeError):
        quantizer.fake_quant = False


def test_amax_is_set_in_place_and_keeps_its_shape() -> None:
    quantizer = make(axis=0)
    quantizer.amax = np.array([[1.0], [2.0]])
    buffer = quantizer.amax
    quantizer.amax = [[3.0], [4.0]]
    assert quantizer.amax is buffer and buffer.tolist() == [[3], [4]]


def test_questionable_uses_are_logged_with_the_quantizers_name(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(make(), make(fake_quant=False))
    name_quantizers(model)
    with caplog.at_level(logging.INFO, "intact.torch"):
        assert model[0].amax is None and model[0].step_size is None and model[0].pre_quant_scale is None
        assert model[0].scale is None and model[1].scale is None
        model[0].amax = None
        model[0].pre_quant_scale = None
    messages = [r.getMessage() for r in caplog.records]
    assert all(s.startswith(("0:", "1:")) for s in messages) and len(messages) == 7
    assert "0: amax is not registered: the range of each batch is used." in messages
    assert "1: accessing scale before quantizing any tensor!" in messages


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
def test_tracing_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    x, quantizer = torch.rand(3), make(unsigned=True)
    with caplog.at_level(logging.WARNING, "intact.torch"):
        traced = torch.jit.trace(quantizer, (x,))
    assert torch.equal(traced(x), quantizer(x)) and not caplog.records


def test_the_export_switch_has_two_names() -> None:
    assert TensorQuantizer.use_fb_fake_quant is TensorQuantizer._enable_onnx_export is False
    try:
        TensorQuantizer.use_fb_fake_quant = True
        assert TensorQuantizer._enable_onnx_export is True
        TensorQuantizer._enable_onnx_export = False
        assert TensorQuantizer.use_fb_fake_quant is False
    finally:
        TensorQuantizer.use_fb_fake_quant = False


# ---- calibration ----


def test_load_calib_amax_ignores_what_a_max_calibrator_cannot_use() -> None:
    x = torch.randn(100)
    mixed = calibrated_quantizer(x), calibrated_quantizer(x, "percentile", calib_method="histogram")
    for quantizer in mixed:
        quantizer.load_calib_amax("percentile", percentile=50.0)
    assert mixed[0].amax == x.abs().max() and mixed[1].amax < 0.5 * x.abs().max()


def test_mergeable_calibration() -> None:
    x = torch.randn(5000)
    symmetric = calibrated_quantizer(x, calib_method="mergeable")
    assert symmetric.amax == x.abs().max()
    symmetric.load_calib_amax("mse")
    assert 0 < symmetric.amax < x.abs().max()
    both = calibrated_quantizer(x, calib_method="mergeable", symmetric=False)
    assert both._amin == x.min() and both.amax == x.max()


def test_nothing_collected(caplog: pytest.LogCaptureFixture) -> None:
    quantizer = make()
    with pytest.raises(RuntimeError, match=r"TensorQuantizer: got no statistics.*strict=False"):
        quantizer.load_calib_amax()
    quantizer.load_calib_amax(strict=False)
    assert torch.isnan(quantizer.amax) and "set amax to NaN" in caplog.text
    with pytest.raises(IntactError, match="TensorQuantizer: amax: got NaN"):
        quantizer(torch.ones(2))


def test_a_zero_range_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    quantizer = calibrated_quantizer(torch.zeros(4))
    assert quantizer.amax == 0 and "every value seen was zero" in caplog.text


@pytest.mark.parametrize("axis", [0, -4, (0,)], ids=str)
def test_negative_axes_work_everywhere(axis: int | tuple[int, ...]) -> None:
    x = torch.randn(2, 3, 4, 5)
    assert calibrated_quantizer(x, axis=axis).amax.shape == (2, 1, 1, 1)
    assert torch.equal(make(axis=axis)(x), make(axis=0)(x))


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: make().enable_clip(), ValueError, "enable_clip with learn_amax=False"),
        (lambda: make().disable_clip(), ValueError, "disable_clip with learn_amax=False"),
        (lambda: TensorQuantizer(if_clip=True), ValueError, "enable_clip with learn_amax=False"),
        (lambda: make().init_learn_amax(), RuntimeError, "init_learn_amax with learn_amax=False"),
        (lambda: make(learn_amax=True).init_learn_amax(), RuntimeError, "got no amax"),
        (
            lambda: setattr(make(amax=1.0), "amax", [1.0, 2.0]),
            RuntimeError,
            "Changing shape when setting amax",
        ),
        (lambda: make(unsigned=True, name="relu")(-torch.ones(2)), TypeError, "relu: inputs: got Negative"),
        (
            lambda: make(name="w", axis=0, amax=[[1.0], [2.0]])(torch.ones(3, 2)),
            ValueError,
            "w: amax: got shape",
        ),
        (lambda: make(name="w")(torch.ones(2, dtype=torch.int64)), ValueError, "w: x: got dtype torch.int64"),
        (
            lambda: make(name="w", axis=4)(torch.ones(2, 3)),
            ValueError,
            "w: axis: got 4 for a tensor with 2 axes",
        ),
        (
            lambda: make(num_bits=(4, 3), fake_quant=False)(torch.ones(2)),
            TypeError,
            "False with a float format",
        ),
        (lambda: setattr(make(), "num_bits", 1.5), TypeError, "num_bits must be"),
        (lambda: make().set_range(0, 1), TypeError, "a range with two ends"),
        (
            lambda: calibrated_quantizer(torch.ones(2), "mse", calib_method="histogram", symmetric=False),
            TypeError,
            "HistogramCalibrator: got a quantizer with symmetric=False",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_bad_use(call: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(IntactError) as caught:
        call()  # type: ignore[operator]
    assert isinstance(caught.value, kind) and words in str(caught.value)


@pytest.mark.parametrize("method", ["enable_calib", "load_calib_amax"])
def test_without_a_calibrator(method: str) -> None:
    quantizer = make()
    quantizer._calibrator = None
    with pytest.raises((ValueError, RuntimeError), match="calibrator"):
        getattr(quantizer, method)()
    assert repr(quantizer) == "TensorQuantizer(8bit fake per-tensor amax=dynamic quant)"


# ---- states of the old library ----


def test_an_old_state_with_amax_loads_into_a_fresh_module() -> None:
    model = nn.Sequential(nn.Linear(3, 2), make(axis=0))
    state = {
        **model.state_dict(),
        "1._amax": torch.tensor([[1.0], [2.0]]),
        "1._pre_quant_scale": torch.tensor(2.0),
    }
    model.load_state_dict(state, strict=True)
    assert model[1].amax.tolist() == [[1], [2]] and model[1].pre_quant_scale == 2
    assert set(model.state_dict()) == set(state)


def test_a_state_without_amax_is_an_error_where_the_module_has_one(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(make(amax=1.0))
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({})
    assert "0: there is no _amax in the state" in caplog.text
    model.load_state_dict({}, strict=False)
    assert model[0].amax == 1


def test_a_state_of_another_shape_is_pytorchs_error() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        make(amax=1.0).load_state_dict({"_amax": torch.ones(3)})


def test_quantizer_calibrators_by_method() -> None:
    assert isinstance(make()._calibrator, calib.MaxCalibrator)
    assert isinstance(make(calib_method="histogram")._calibrator, calib.HistogramCalibrator)
    with pytest.raises(ValueError, match="calib_method: got 'mse'"):
        calib.create("mse", 8, None, False)


def test_the_descriptor_default_is_not_shared() -> None:
    first, second = TensorQuantizer(), TensorQuantizer()
    first.num_bits = 4
    assert second.num_bits == 8
    assert torch.equal(tensor_quant(torch.ones(1), 1.0)[0], torch.tensor([127.0]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_dynamic_range_that_is_not_finite_gives_nan_where_it_counts(bad: float) -> None:
    x = torch.ones(2, 3)
    x[1, 0] = bad
    whole = TensorQuantizer(QuantDescriptor())
    assert whole(x).isnan().all()
    rows = TensorQuantizer(QuantDescriptor(axis=0))
    assert torch.equal(rows(x).isnan().any(1), torch.tensor([False, True])) and rows(x)[1].isnan().all()
    two_ends = TensorQuantizer(QuantDescriptor(axis=0, symmetric=False))
    assert torch.equal(two_ends(x)[0], x[0]) and two_ends(x)[1].isnan().all()
    fixed = TensorQuantizer(QuantDescriptor(amax=1.0))
    assert not fixed(x)[0].isnan().any()


def test_the_export_switch_can_be_asked_for_on_a_quantizer() -> None:
    quantizer = TensorQuantizer()
    quantizer._enable_onnx_export = True
    try:
        assert TensorQuantizer.use_fb_fake_quant and TensorQuantizer()._enable_onnx_export
    finally:
        TensorQuantizer._enable_onnx_export = False
    assert not quantizer._enable_onnx_export
