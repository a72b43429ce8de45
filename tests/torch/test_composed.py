"""The composed formula: the bits of numerics on every device, fused by compilers, no wait for a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

from intact import numerics
from intact.calib import Histogram, Range
from intact.errors import CalibrationError
from intact.numerics.grids.affine import round_to_format
from intact.spec import Format, QuantSpec
from intact.torch import calib, calibrate, fake_quantize_formula
from intact.torch.calib import HistogramCalibrator, MergeableCalibrator
from intact.torch.nn import QuantLinear, TensorQuantizer
from intact.torch.operators import fake_quantize as ops
from intact.torch.operators import learned_ranges
from intact.torch.tensor_quant import QuantDescriptor, tensor_quant

WORK = [torch.float32, torch.float64]
HARD = [0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 0.5, 2.5, -0.5, 1e30, -1e-3]


def values(count: int, seed: int = 0) -> Tensor:
    x = torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 3
    x[: len(HARD)] = torch.tensor(HARD)
    return x


def same_bits(got: Tensor, want: np.ndarray) -> None:
    array, missing = got.detach().numpy(), np.isnan(want)
    assert array.dtype == want.dtype and array.shape == want.shape
    assert np.array_equal(np.isnan(array), missing)
    assert np.array_equal(array[~missing].view(np.uint32), want[~missing].view(np.uint32))


# ---- the same bits as numerics ----


@pytest.mark.parametrize("work", WORK, ids=str)
@pytest.mark.parametrize("format", ["int8", "uint8", "int4", "int16", "uint16"])
@given(high=st.floats(0, 2.0**127, width=32), seed=st.integers(0, 9))
def test_scale_of_any_amax(work: torch.dtype, format: str, high: float, seed: int) -> None:
    spec = QuantSpec(Format.parse(format))
    got = fake_quantize_formula.scale_and_zero_point(torch.tensor(high), None, spec, work)[0]
    same_bits(got, np.asarray(numerics.scale_from_amax(np.float32(high), spec)))


@pytest.mark.parametrize("work", WORK, ids=str)
@pytest.mark.parametrize("format", ["int8", "uint8", "int4", "int16", "uint16"])
@given(ends=st.tuples(*[st.floats(-(2.0**126), 2.0**126, width=32)] * 2).map(sorted))
def test_scale_and_zero_point_of_any_range(work: torch.dtype, format: str, ends: list[float]) -> None:
    spec, (low, high) = QuantSpec(Format.parse(format), symmetric=False), np.float32(ends)
    got = fake_quantize_formula.scale_and_zero_point(torch.tensor(high), torch.tensor(low), spec, work)
    scale, zero_point = numerics.affine_from_range(low, high, spec)
    same_bits(got[0], np.asarray(scale))
    assert int(got[1]) == int(zero_point)
    for end, want in zip(
        fake_quantize_formula.bounds(torch.tensor(high), torch.tensor(low), spec, work),
        numerics.representable_range(scale, zero_point, spec),
        strict=True,
    ):
        same_bits(end, np.asarray(want))


@pytest.mark.parametrize(
    ("low", "high"),
    [(None, -1.0), (None, np.nan), (None, np.inf), (2.0, 1.0), (-np.inf, 1.0), (np.nan, 1.0), (-3e38, 3e38)],
    ids=str,
)
def test_a_range_that_numerics_refuses_gives_nan(low: float | None, high: float) -> None:
    x = torch.tensor([-1.0, 0.0, 1.0])
    ends = torch.tensor(high), None if low is None else torch.tensor(low)
    assert fake_quantize_formula.fake_quantize(x, *ends, "int8", None, False).isnan().all()


@pytest.mark.parametrize("format", ["fp8e4m3", "fp8e5m2", "fp4e2m1"])
def test_rounding_to_a_float_format_equals_the_cast(format: str) -> None:
    """Every float32 of 16 leading bits, among them all ties of the formats, and its two neighbours."""
    fmt = Format.parse(format)
    leading = np.arange(2**16, dtype=np.uint32) << 16
    bits = np.concatenate([leading - 1, leading, leading + 1]).view(np.float32)
    finite = bits[~np.isnan(bits)]
    same_bits(
        fake_quantize_formula.round_to_format(torch.from_numpy(finite), fmt), round_to_format(finite, fmt)
    )
    assert fake_quantize_formula.round_to_format(torch.tensor(np.nan), fmt).isnan()


@pytest.mark.parametrize("work", WORK, ids=str)
@pytest.mark.parametrize("format", ["int8", "uint3", "int16", "fp8e4m3", "fp8e5m2", "fp4e2m1"])
@pytest.mark.parametrize("block", [4, 7])
def test_blocks_are_an_axis_of_a_view(work: torch.dtype, format: str, block: int) -> None:
    """A block size for [rows, n] says what kept axes 0 and 1 say of [rows, blocks, size]."""
    spec = QuantSpec(Format.parse(format), axis=1, block_size=block)
    x = values(6 * 28).reshape(6, 28)
    amax = np.linspace(0.2, 5, 6 * 28 // block, dtype=np.float32).reshape(6, -1)
    want = numerics.fake_quantize(x.numpy(), numerics.scale_from_amax(amax, spec), 0, spec)
    view = x.unflatten(1, (-1, block))
    got = fake_quantize_formula.fake_quantize(view, torch.from_numpy(amax), None, format, [0, 1], False, work)
    same_bits(got.flatten(1), want)


def test_ends_of_an_empty_tensor_and_of_one_that_keeps_all_axes() -> None:
    assert [end.shape for end in ops.min_max(torch.zeros(0, 3, device="meta"), [1])] == [(1, 3)] * 2
    x = torch.tensor([[1.0, -0.0], [2.0, 3.0]])
    same_bits(fake_quantize_formula.min_max(x, [0, 1])[0], numerics.minmax(x.numpy(), (0, 1))[0])


# ---- compilers ----


def layer(x: Tensor, amax: Tensor, amin: Tensor | None, format: str) -> Tensor:
    return ops.fake_quantize(torch.relu(x) * 2 - 1, amax, amin, format=format, axis=1) + x


@pytest.fixture
def _afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_afresh")
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
def test_inductor_fuses_the_operator_and_keeps_its_bits(asymmetric: bool) -> None:
    from torch._inductor.exc import InductorError
    from torch._inductor.utils import run_and_get_code

    x = values(4 * 3 * 64).reshape(4, 3, 64).requires_grad_()
    high = torch.tensor([0.5, 1.0, 2.0])
    args = (x, high, -high / 3 if asymmetric else None, "uint8" if asymmetric else "int8")
    try:
        compiled, code = run_and_get_code(torch.compile(layer, fullgraph=True), *args)
    except InductorError as error:
        if "InvalidCxxCompiler" in repr(error):
            pytest.skip("no C++ compiler, which Inductor needs on the CPU")
        raise
    eager = layer(*args)
    same_bits(compiled, eager.detach().numpy())
    assert "fake_quantize" not in code[0] and code[0].count("async_compile.cpp_pybinding(") == 1
    grads = [torch.autograd.grad(y.nan_to_num().sum(), x)[0] for y in (compiled, eager)]
    same_bits(grads[0], grads[1].numpy())


@pytest.mark.usefixtures("_afresh")
@pytest.mark.parametrize("format", ["fp8e4m3", "fp8e5m2", "fp4e2m1", "uint4"])
def test_a_functionalized_graph_has_the_formula_in_place_of_the_node(format: str) -> None:
    seen: list[Any] = []

    def keep(gm: torch.fx.GraphModule, _: Any) -> Any:
        seen.extend(node.target for node in gm.graph.nodes)
        return gm.forward

    backend = aot_autograd(fw_compiler=keep)
    x, amax = values(96).reshape(4, 3, 8), torch.tensor([0.5, 1.0, 2.0])
    compiled = torch.compile(layer, fullgraph=True, backend=backend)(x, amax, None, format)
    same_bits(compiled, layer(x, amax, None, format).numpy())
    assert not [target for target in seen if "intact" in str(target)]


# ---- no wait for a device: a tensor on "meta" has no values, and whatever asks for one raises ----


class Formulas(TorchDispatchMode):
    """Runs the operators of `intact` as a device without kernels does, also where there is no such device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "intact":
            with self:
                composite = torch._C.DispatchKey.CompositeExplicitAutograd
                return func._op_dk(composite, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def _formulas() -> Iterator[None]:
    with Formulas():
        yield


@pytest.fixture
def off_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the CPU take the way of those on a device."""
    monkeypatch.setattr(ops, "is_readable", lambda x: False)


@pytest.mark.usefixtures("_formulas")
@pytest.mark.parametrize(
    "ask",
    [Tensor.item, bool, float, Tensor.tolist, Tensor.cpu, torch.zeros(()).copy_],
    ids=["item", "bool", "float", "tolist", "cpu", "copy"],
)
def test_what_waits_for_values_is_caught(ask: Callable[[Tensor], Any]) -> None:
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        ask(torch.ones((), device="meta"))


def _learn_range(x: Tensor, high: Tensor) -> Tensor:
    amax, amin = high.clone().requires_grad_(), (-high).requires_grad_()
    return learned_ranges.fake_quantize(x, amax, amin, kind="lsq+", format="uint8", axis=[1])


@pytest.mark.usefixtures("_formulas")
@pytest.mark.parametrize(
    "run",
    [
        lambda x, high: ops.fake_quantize(x, high, axis=1),
        lambda x, high: ops.fake_quantize(x, high, -high, format="uint8", axis=1),
        lambda x, high: ops.fake_quantize(x, 2.0, format="fp8e4m3"),
        lambda x, high: ops.fake_quantize(x, high, format="fp4e2m1", axis=1),
        lambda x, high: learned_ranges.fake_quantize(x, high.requires_grad_(), kind="pact", axis=[1]),
        _learn_range,
    ],
    ids=["symmetric", "asymmetric", "a number", "fp4", "pact", "lsq+"],
)
def test_forward_and_backward_wait_for_nothing(run: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = torch.ones(2, 3, 4, device="meta", requires_grad=True)
    run(x, torch.ones(3, device="meta")).sum().backward()
    assert x.grad is not None and x.grad.device.type == "meta"


@pytest.mark.usefixtures("_formulas")
@pytest.mark.parametrize("options", [{}, {"unsigned": True}, {"axis": 0}, {"num_bits": (4, 3)}], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_quantizer_waits_for_nothing(options: dict[str, Any], dynamic: bool) -> None:
    quantizer = TensorQuantizer(QuantDescriptor(amax=None if dynamic else 2.0, **options)).to("meta")
    x = torch.ones(2, 3, 4, device="meta", requires_grad=True)
    quantizer(x).sum().backward()
    assert x.grad is not None and x.grad.device.type == "meta"


@pytest.mark.usefixtures("_formulas")
def test_codes_wait_for_nothing() -> None:
    x = torch.ones(2, 3, device="meta", dtype=torch.float16)
    codes, scale = tensor_quant(x, torch.ones((), device="meta"), 8, True)
    assert codes.device.type == scale.device.type == "meta"


@pytest.mark.usefixtures("_formulas")
@pytest.mark.parametrize("axis", [None, 1, (0, 1)], ids=str)
@pytest.mark.parametrize("method", ["max", "histogram", "mergeable"])
def test_calibrators_wait_for_nothing(method: str, axis: Any) -> None:
    if method == "histogram" and axis is not None:
        pytest.skip("one range only")
    calibrator = calib.create(method, 8, axis, False)
    for _ in range(2):
        calibrator.collect(torch.ones(2, 3, 4, device="meta", dtype=torch.float16))
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        calibrator.compute_amax("percentile") if method == "histogram" else calibrator.compute_amax()


@pytest.mark.usefixtures("_formulas")
@pytest.mark.parametrize("perchannel", [False, True])
def test_weights_are_calibrated_without_a_wait(perchannel: bool) -> None:
    layer = QuantLinear(4, 3).to("meta")
    calib.calibrate_weights(layer, "max", perchannel)
    assert layer.weight_quantizer.amax.shape == ((3, 1) if perchannel else ())


# ---- what was counted on a device is what the CPU counts ----


def batches() -> list[Tensor]:
    """Growing, shrinking, zero; values at the edges of bins."""
    edges = torch.arange(-600, 600).reshape(2, 3, 200) / 64
    random = [torch.randn(2, 3, 50, generator=torch.Generator().manual_seed(i)) * 10.0**i for i in (0, -3, 4)]
    return [torch.zeros(2, 3, 5), random[0], edges, random[1], torch.full((2, 3, 1), 1e-42), random[2]]


@pytest.mark.usefixtures("off_the_cpu")
@pytest.mark.parametrize("axis", [None, 1, -1, (0, 1)], ids=str)
def test_statistics_of_a_device_equal_those_of_the_cpu(axis: Any) -> None:
    on_device = MergeableCalibrator(8, axis, False)
    want = Range(axis) if isinstance(axis, tuple) else Histogram(axis)
    for batch in batches() if axis != -1 else batches()[:1] * 2:
        on_device.collect(batch)
        want.collect(batch.numpy())
    assert on_device.stats == want
    on_device.collect(batches()[0])  # after a look, counting goes on
    want.collect(batches()[0].numpy())
    assert on_device.stats == want


@pytest.mark.parametrize("skip_zeros", [False, True])
def test_a_histogram_of_a_device_equals_that_of_the_cpu(
    skip_zeros: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cpu, on_device = (HistogramCalibrator(num_bins=64, skip_zeros=skip_zeros) for _ in range(2))
    for number, batch in enumerate(batches()[:-1]):
        on_cpu.collect(batch)
        with monkeypatch.context() as patch:
            if number != 3:  # one batch comes on the CPU
                patch.setattr(ops, "is_readable", lambda x: False)
            on_device.collect(batch)
        assert number or on_device.compute_amax("mse") == on_cpu.compute_amax("mse")  # a look between
    assert on_device._calib_hist.tolist() == on_cpu._calib_hist.tolist()
    assert (on_device._width, on_device._top) == (on_cpu._width, on_cpu._top)
    with monkeypatch.context() as patch:
        patch.setattr(ops, "is_readable", lambda x: False)
        on_device.collect(batches()[-1] * 1e6)
    with pytest.raises(CalibrationError, match="at most 1048576 bins"):
        on_device.compute_amax("mse")


@pytest.mark.parametrize("method", ["max", "mse", "percentile"])
def test_ranges_of_weights_counted_on_a_device(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [QuantLinear(300, 4) for _ in range(2)]
    for layer in layers:
        layer.weight.data.copy_(values(1200).nan_to_num(0, 0, 0).clamp(-9, 9).reshape(4, 300))
        layer.weight.data[1] = 0
    calib.calibrate_weights(layers[0], method)
    monkeypatch.setattr(ops, "is_readable", lambda x: False)
    calib.calibrate_weights(layers[1], method)
    assert torch.equal(layers[0].weight_quantizer.amax, layers[1].weight_quantizer.amax)


@pytest.mark.usefixtures("off_the_cpu")
@pytest.mark.parametrize("method", ["max", "histogram", "mergeable"])
def test_what_is_not_finite_is_refused_when_a_range_is_asked_for(method: str) -> None:
    calibrator = calib.create(method, 8, None, False)
    calibrator.collect(torch.tensor([1.0, np.nan]))
    calibrator.collect(torch.tensor([2.0]))
    with pytest.raises(CalibrationError, match="NaN"):
        calibrator.compute_amax("mse") if method == "histogram" else calibrator.compute_amax()


@pytest.mark.usefixtures("off_the_cpu")
def test_calibrate_names_the_quantizer_that_saw_nan_on_a_device() -> None:
    model = torch.nn.Sequential(QuantLinear(2, 2), QuantLinear(2, 2))
    with pytest.raises(CalibrationError, match=r"0\._input_quantizer.*1 NaN and infinities"):
        calibrate(model, [torch.tensor([[1.0, np.inf]])], method="max", progress=False)


@pytest.mark.usefixtures("off_the_cpu")
def test_a_negative_value_on_an_unsigned_grid_gives_nan() -> None:
    quantizer = TensorQuantizer(QuantDescriptor(amax=2.0, unsigned=True))
    assert quantizer(torch.tensor([0.0, 1.0])).tolist() == [0.0, pytest.approx(1.0, abs=0.01)]
    with torch.no_grad(), Formulas():
        assert quantizer(torch.tensor([-1.0, 1.0])).isnan().all()
