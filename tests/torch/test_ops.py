"""intact::fake_quantize: equal to numerics bit for bit, and a good citizen of PyTorch."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from intact import numerics
from intact.errors import QuantValueError
from intact.spec import Format, QuantSpec
from intact.torch.operators import fake_quantize as ops

OP = torch.ops.intact.fake_quantize.default
OP_BACKWARD = torch.ops.intact.fake_quantize_backward.default
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
FORMATS = ["int8", "uint8", "int4", "uint3", "int16", "fp8e4m3", "fp8e5m2"]
LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
    "sliced": lambda x: torch.stack([x, x], dim=-1)[..., 0],
    "expanded": lambda x: x[:1].expand_as(x),
}


def array(x: torch.Tensor) -> np.ndarray:
    x = x.detach().contiguous()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def assert_same_bits(got: torch.Tensor, want: np.ndarray) -> None:
    got = array(got)
    assert got.dtype == want.dtype and got.shape == want.shape
    missing = np.isnan(want.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), missing)
    bits = f"u{want.dtype.itemsize}"
    np.testing.assert_array_equal(
        np.ascontiguousarray(got[~missing]).view(bits), np.ascontiguousarray(want[~missing]).view(bits)
    )


def tensor(dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = (4, 3, 5, 6)) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3
    flat = x.view(-1)
    hard = [0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 0.5, 2.5, -0.5, 1e30]
    flat[: len(hard)] = torch.tensor(hard)
    return x.to(dtype)


def want_symmetric(x: torch.Tensor, amax: np.ndarray, spec: QuantSpec) -> np.ndarray:
    return numerics.fake_quantize(array(x), numerics.scale_from_amax(amax, spec), 0, spec)


@pytest.mark.rule("N32")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [None, 1, (0, 2), (1, 3)], ids=str)
def test_equals_numerics(format: str, dtype: torch.dtype, axis: int | tuple[int, ...] | None) -> None:
    x, spec = tensor(dtype), QuantSpec(Format.parse(format), axis=axis)
    amax = np.linspace(0.5, 4, int(np.prod(numerics.granule_shape((4, 3, 5, 6), spec))), dtype=np.float32)
    amax = amax.reshape(numerics.granule_shape((4, 3, 5, 6), spec))
    got = ops.fake_quantize(x, torch.from_numpy(amax), format=format, axis=axis)
    assert_same_bits(got, want_symmetric(x, amax, spec))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [None, 1, (0, 1)], ids=str)
def test_any_layout_gives_the_same_values(layout: str, axis: int | tuple[int, ...] | None) -> None:
    x = LAYOUTS[layout](tensor())
    spec = QuantSpec(axis=axis)
    amax = np.full(numerics.granule_shape(tuple(x.shape), spec), 2.5, np.float32)
    amax.reshape(-1)[0] = 1.25
    got = ops.fake_quantize(x, torch.from_numpy(amax), axis=axis)
    assert_same_bits(got, want_symmetric(x, amax, spec))
    assert got.stride() == torch.empty_like(x).stride()


@pytest.mark.parametrize("layout", ["channels_last", "transposed"])
def test_a_dense_layout_is_kept(layout: str) -> None:
    x = LAYOUTS[layout](tensor())
    assert ops.fake_quantize(x, 2.0).stride() == x.stride()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [None, 1], ids=str)
def test_asymmetric_equals_numerics(dtype: torch.dtype, axis: int | None) -> None:
    x, spec = tensor(dtype), QuantSpec(Format.parse("uint8"), axis=axis, symmetric=False)
    low = np.asarray([-1.0, -0.3, 0.5] if axis else -1.0, np.float32)
    high = np.asarray([2.0, 0.1, 4.0] if axis else 2.0, np.float32)
    scale, zero_point = numerics.affine_from_range(low, high, spec)
    got = ops.fake_quantize(x, torch.from_numpy(high), torch.from_numpy(low), format="uint8", axis=axis)
    assert_same_bits(got, numerics.fake_quantize(array(x), scale, zero_point, spec))


@given(
    shape=st.lists(st.integers(0, 5), max_size=4).map(tuple),
    bits=st.integers(2, 16),
    signed=st.booleans(),
    narrow=st.booleans(),
    amax=st.floats(0, 1e6, width=32),
    seed=st.integers(0, 99),
)
def test_any_shape_and_width(
    shape: tuple[int, ...], bits: int, signed: bool, narrow: bool, amax: float, seed: int
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * (amax or 1.0)
    spec = QuantSpec(Format.integer(bits, signed=signed), narrow=narrow)
    got = ops.fake_quantize(x, amax, format=spec.format.name, narrow=narrow)
    assert_same_bits(got, want_symmetric(x, np.float32(amax), spec))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [None, [1], [0, 2]], ids=str)
def test_composed_formula_for_other_devices_equals_the_kernels(
    format: str, dtype: torch.dtype, axis: list[int] | None
) -> None:
    x = tensor(dtype)
    shape = [x.shape[a] for a in axis or []]
    amax = torch.linspace(0.4, 3, int(np.prod(shape))).reshape(shape)
    call = (format, axis, True)
    assert_same_bits(ops._forward_composed(x, amax, None, *call), array(OP(x, amax, None, *call)))
    grad = torch.randn(x.shape).to(dtype)
    assert_same_bits(
        ops._backward_composed(grad, x, amax, None, *call), array(OP_BACKWARD(grad, x, amax, None, *call))
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_composed_asymmetric_formula_equals_the_kernels(dtype: torch.dtype) -> None:
    x, call = tensor(dtype), ("uint8", [1], False)
    low, high = torch.tensor([-1.0, 0.3, -2.0]), torch.tensor([2.0, 3.0, -0.5])
    assert_same_bits(ops._forward_composed(x, high, low, *call), array(OP(x, high, low, *call)))
    grad = torch.ones_like(x)
    assert_same_bits(
        ops._backward_composed(grad, x, high, low, *call), array(OP_BACKWARD(grad, x, high, low, *call))
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradient_is_the_mask_of_the_range(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](tensor(dtype)).detach().requires_grad_()
    amax = torch.tensor([1.0, 2.0, 0.0]).view(1, 3, 1, 1)
    grad = torch.randn(x.shape).to(dtype)
    got = torch.autograd.grad(ops.fake_quantize(x, amax), x, grad)[0]
    inside = x.detach().float().abs() <= amax
    torch.testing.assert_close(got, torch.where(inside, grad, torch.zeros_like(grad)), rtol=0, atol=0)


def test_gradient_of_an_asymmetric_range_is_what_the_grid_reaches() -> None:
    spec = QuantSpec(Format.parse("uint8"), symmetric=False)
    low, high = numerics.representable_range(*numerics.affine_from_range(-1, 2, spec), spec)
    x = torch.tensor([-5.0, float(low), 0.0, float(high), np.nextafter(high, np.float32(9)), np.nan])
    x.requires_grad_()
    ops.fake_quantize(x, 2.0, -1.0, format="uint8").sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0, 0]


def test_second_derivative_and_gradient_of_the_gradient() -> None:
    x = torch.tensor([0.5, 3.0], requires_grad=True)
    grad = torch.tensor([2.0, 5.0], requires_grad=True)
    first = torch.autograd.grad(ops.fake_quantize(x, 1.0), x, grad, create_graph=True)[0]
    (first * torch.tensor([7.0, 7.0])).sum().backward()
    assert grad.grad.tolist() == [7.0, 0.0] and x.grad is None


def test_the_graph_holds_x_and_the_range_only() -> None:
    saved: list[int] = []
    x, amax = torch.randn(100, requires_grad=True), torch.tensor(1.0)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        ops.fake_quantize(x, amax)
    assert saved == [x.data_ptr(), amax.data_ptr()]


def test_without_grad_nothing_is_recorded() -> None:
    x = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        assert not ops.fake_quantize(x, 1.0).requires_grad
    assert not ops.fake_quantize(x.detach(), torch.tensor(1.0, requires_grad=True)).requires_grad


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_autocast_leaves_the_dtype_alone(dtype: torch.dtype) -> None:
    x = tensor(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        got = ops.fake_quantize(x, 2.0)
    assert_same_bits(got, array(ops.fake_quantize(x, 2.0)))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "sliced"])
@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
def test_opcheck(layout: str, asymmetric: bool) -> None:
    x = LAYOUTS[layout](torch.randn(2, 3, 4, 5)).detach().requires_grad_()
    high = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
    args = (x, high, -high if asymmetric else None, "int8", [1], False)
    torch.library.opcheck(OP, args)
    torch.library.opcheck(OP_BACKWARD, (torch.ones_like(x.detach(), requires_grad=True), *args))


def test_compile_and_export_see_one_operator() -> None:
    def f(x: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
        return ops.fake_quantize(x * 2, amax, axis=1) + 1

    x = torch.randn(2, 3, 4, requires_grad=True)
    amax = torch.tensor([0.5, 1.0, 2.0])
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager", dynamic=True)(x, amax)
    eager = f(x, amax)
    assert torch.equal(compiled, eager)
    grads = [torch.autograd.grad(y.sum(), x)[0] for y in (compiled, eager)]
    assert torch.equal(*grads)

    class Module(torch.nn.Module):
        forward = staticmethod(f)

    graph = torch.export.export(Module(), (x.detach(), amax)).graph
    assert [n.target for n in graph.nodes].count(OP) == 1


def test_a_write_through_data_is_seen() -> None:
    x, amax = torch.tensor([0.7]), torch.tensor(1.0)
    before = ops.fake_quantize(x, amax)
    amax.data.fill_(0.5)
    assert ops.fake_quantize(x, amax).item() == 0.5 != before.item()


@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), (1, 3, 1, 1)], ids=str)
def test_amax_in_granule_or_broadcast_shape(shape: tuple[int, ...]) -> None:
    x, amax = tensor(), torch.tensor([1.0, 2.0, 3.0])
    want = ops.fake_quantize(x, amax.view(1, 3, 1, 1))
    assert torch.equal(ops.fake_quantize(x, amax.view(shape), axis=1).nan_to_num(), want.nan_to_num())


def test_codes() -> None:
    x = torch.tensor([-9.0, -1.0, 0.2, 1.0, np.nan, np.inf])
    assert ops.quantize(x, torch.tensor(1.0)).tolist() == [-128, -127, 25, 127, -128, 127]
    assert ops.quantize(x, torch.tensor(1.0), narrow=True).tolist() == [-127, -127, 25, 127, -127, 127]


@pytest.mark.parametrize("axes", [(), (1,), (0, 3)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_min_max_equals_numerics(axes: tuple[int, ...], layout: str) -> None:
    x = LAYOUTS[layout](torch.randn(4, 3, 5, 6))
    low, high = ops.min_max(x, axes)
    want = numerics.minmax(array(x), axes or None)
    assert low.shape == (tuple(n if a in axes else 1 for a, n in enumerate(x.shape)) if axes else ())
    assert np.array_equal(low.flatten(), want[0].flatten()) and np.array_equal(
        high.flatten(), want[1].flatten()
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.fake_quantize(x, -1.0), "amax: got -1.0, want a value >= 0"),
        (lambda x: ops.fake_quantize(x, float("nan")), "amax: got NaN or infinity"),
        (
            lambda x: ops.fake_quantize(x, torch.ones(4), axis=1),
            "amax: got shape (4,), want one number, or shape",
        ),
        (lambda x: ops.fake_quantize(x, torch.ones(2), axis=7), "axis: got 7 for a tensor of shape (2, 3)"),
        (lambda x: ops.min_max(x, [2]), "axis: got [2] for a tensor with 2 axes"),
        (lambda x: ops.fake_quantize(x, 1.0, format="int99"), "format: got 'int99'"),
        (lambda x: ops.fake_quantize(x, 1.0, 2.0), "rmin: got a value above rmax"),
        (lambda x: ops.fake_quantize(x.int(), 1.0), "x: got dtype torch.int32"),
    ],
    ids=["negative", "nan", "shape", "axis", "reduced axis", "format", "swapped", "dtype"],
)
def test_bad_input(call: object, words: str) -> None:
    with pytest.raises(QuantValueError) as caught:
        call(torch.ones(2, 3))  # type: ignore[operator]
    assert words in str(caught.value)


def test_a_float_format_that_torch_lacks_is_composed_too() -> None:
    x, call = tensor(), ("fp4e2m1", [1], False)
    amax = torch.tensor([0.5, 1.0, 2.0])
    assert_same_bits(ops._forward_composed(x, amax, None, *call), array(OP(x, amax, None, *call)))


def test_what_is_quantized_stays_a_tensor_whose_storage_can_be_given_back() -> None:
    """`fully_shard` does so with whole parameters; `Tensor.numpy` would fix the storage's size."""
    x = torch.randn(4, 6, requires_grad=True)
    y = ops.fake_quantize(x, torch.tensor(2.0), format="int8")
    y.sum().backward()
    assert x.untyped_storage().resizable()
    assert ops.as_numpy(x.to(torch.bfloat16)).dtype == "bfloat16"
