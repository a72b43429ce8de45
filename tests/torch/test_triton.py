"""The Triton kernels: their bits in Triton's interpreter or on a GPU, their instructions in PTX.

`TRITON_INTERPRET=0 pytest tests/torch/test_triton.py` runs them compiled, where there is a CUDA GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from intact import numerics
from intact.calib.histogram import BINS
from intact.spec import Format, QuantSpec
from intact.torch import fake_quantize_formula
from intact.torch.calib import HistogramCalibrator, MergeableCalibrator, on_device
from intact.torch.operators import fake_quantize as ops

pytest.importorskip(
    "triton", reason="Triton is not installed (pip install triton): its kernels are not tested"
)

from triton.runtime.jit import JITFunction

from intact.torch import triton as kernels
from intact.torch.triton import elementwise, range_statistics
from intact.torch.triton.elementwise import layout_of

FORMATS = ["int8", "uint8", "int3", "uint16", "fp8e4m3", "fp8e5m2", "fp4e2m1"]
HARD = [0.0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, np.nan, 0.5, 2.5, -0.5, 1e30, -1e-3, 3e38]
INTERPRETED = not isinstance(elementwise.forward_kernel, JITFunction)
DEVICE = "cpu" if INTERPRETED else "cuda"
# The interpreter truncates bfloat16 where GPUs round; the PTX is held to cvt.rn below.
DTYPES = [torch.float32, torch.float16, torch.float64, *([] if INTERPRETED else [torch.bfloat16])]


@pytest.fixture(autouse=True)
def _has_a_device() -> None:
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("TRITON_INTERPRET is not 1, and there is no CUDA GPU")


@pytest.fixture
def only_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The composed formula, to which kernels leave what they cannot do, is not there."""

    def refuse(*args: Any) -> Tensor:
        raise AssertionError("left to the composed formula")

    for name in ("fake_quantize", "fake_quantize_backward", "min_max"):
        monkeypatch.setattr(fake_quantize_formula, name, refuse)


def values(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Hard numbers, ties of every grid, and random ones, on the CPU."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3
    flat = x.view(-1)
    ties = torch.arange(-300, 300) / 64
    flat[: len(HARD)] = torch.tensor(HARD)
    flat[len(HARD) : len(HARD) + len(ties)] = ties[: len(flat) - len(HARD)]
    return x.to(dtype)


def same_bits(got: Tensor, want: Any) -> None:
    array, want = ops.as_numpy(got.cpu()), np.asarray(want)
    missing, bits = np.isnan(want), f"u{want.dtype.itemsize}"
    assert array.dtype == want.dtype and array.shape == want.shape
    assert np.array_equal(np.isnan(array), missing)
    assert np.array_equal(array[~missing].view(bits), want[~missing].view(bits))


def ranges(granules: tuple[int, ...]) -> np.ndarray:
    """Different ones, a zero range and one that ends at a power of two among them."""
    amax = np.linspace(0.3, 7, int(np.prod(granules)), dtype=np.float32)
    amax[1:3] = [127 / 64, 0.0][: len(amax) - 1]
    return amax.reshape(granules)


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [None, 1, (0, 1)], ids=str)
def test_forward_and_backward_equal_numerics(format: str, dtype: torch.dtype, axis: Any) -> None:
    x, spec = values((4, 3, 60), dtype), QuantSpec(Format.parse(format), axis=axis)
    amax = ranges(numerics.granule_shape((4, 3, 60), spec))
    call = (torch.from_numpy(amax), None, format, list(spec.axes), False)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        got = kernels.fake_quantize(x.to(DEVICE), *call)
        scale = numerics.scale_from_amax(amax, spec)
        same_bits(got, numerics.fake_quantize(ops.as_numpy(x), scale, 0, spec))
        grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
        masked = kernels.fake_quantize_backward(grad.to(DEVICE), x.to(DEVICE), *call)
    want = numerics.fake_quantize_grad(ops.as_numpy(grad), ops.as_numpy(x), -amax, amax, spec)
    same_bits(masked, want)


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("format", ["int8", "uint8", "uint16"])
@pytest.mark.parametrize("narrow", [False, True])
def test_asymmetric_grids_equal_numerics(format: str, narrow: bool) -> None:
    x, spec = values((5, 4, 40)), QuantSpec(Format.parse(format), axis=1, symmetric=False, narrow=narrow)
    low, high = np.float32([-1, -0.3, 0.5, 0]), np.float32([2, 0.1, 4, 0])
    scale, zero_point = numerics.affine_from_range(low, high, spec)
    call = (torch.from_numpy(high), torch.from_numpy(low), format, [1], narrow)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        placed = x.to(DEVICE)
        got = kernels.fake_quantize(placed, *call)
        same_bits(got, numerics.fake_quantize(x.numpy(), scale, zero_point, spec))
        masked = kernels.fake_quantize_backward(torch.ones_like(placed), placed, *call)
    ends = numerics.representable_range(scale, zero_point, spec)
    same_bits(masked, numerics.fake_quantize_grad(np.ones(x.shape, np.float32), x.numpy(), *ends, spec))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("inner", [elementwise.BLOCK, elementwise.BLOCK + 1, 2500])
@pytest.mark.parametrize("low", [False, True])
def test_granules_that_are_longer_than_a_block(inner: int, low: bool) -> None:
    x, grad = values((3, 5, inner)), torch.randn(3, 5, inner)
    high = torch.from_numpy(ranges((5,)))
    call = (high, -high.flip(0) if low else None, "uint8" if low else "int8", [1], False)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        got = kernels.fake_quantize(x.to(DEVICE), *call)
        masked = kernels.fake_quantize_backward(grad.to(DEVICE), x.to(DEVICE), *call)
    same_bits(got, torch.ops.intact.fake_quantize(x, *call))
    same_bits(masked, torch.ops.intact.fake_quantize_backward(grad, x, *call))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize("format", ["int4", "fp8e4m3", "fp4e2m1"])
def test_blocks_equal_numerics(format: str) -> None:
    x, spec = values((6, 128)), QuantSpec(Format.parse(format), axis=1, block_size=32)
    amax = ranges((6, 4))
    call = (torch.from_numpy(amax), None, format, [0, 1], False)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        got = kernels.fake_quantize(x.to(DEVICE).unflatten(1, (4, 32)), *call)
    same_bits(
        got.flatten(1), numerics.fake_quantize(x.numpy(), numerics.scale_from_amax(amax, spec), 0, spec)
    )


@pytest.mark.parametrize(
    ("low", "high"),
    [(None, -1.0), (None, np.nan), (None, np.inf), (2.0, 1.0), (-np.inf, 1.0), (np.nan, 1.0), (-3e38, 3e38)],
    ids=str,
)
def test_a_range_that_numerics_refuses_gives_nan(low: float | None, high: float) -> None:
    ends = torch.tensor(high), None if low is None else torch.tensor(low)
    with np.errstate(all="ignore"):
        x = torch.tensor([-1.0, 0.0, 1.0], device=DEVICE)
        got = kernels.fake_quantize(x, *ends, "int8", None, False)
    assert got.isnan().all()


@pytest.mark.parametrize(
    ("lay", "axes", "fused"),
    [
        (lambda x: x.contiguous(memory_format=torch.channels_last), [1], True),
        (lambda x: x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0), [1], True),
        (lambda x: torch.stack([x, x], dim=-1)[..., 0], [1], True),
        (lambda x: x[:1].expand_as(x), [0], True),
        (lambda x: x.contiguous(memory_format=torch.channels_last), [1, 2], False),
        (lambda x: x, [0, 2], False),
    ],
    ids=["channels last", "transposed", "sliced", "expanded", "kept axes out of order", "kept axes apart"],
)
def test_layouts(lay: Callable[[Tensor], Tensor], axes: list[int], fused: bool) -> None:
    x = lay(values((4, 3, 5, 6)).to(DEVICE))
    amax = torch.from_numpy(ranges(tuple(x.shape[a] for a in axes)))
    dense = torch.empty_like(x)
    assert (layout_of(dense.shape, dense.stride(), axes) is not None) == fused
    with np.errstate(all="ignore"):
        got = kernels.fake_quantize(x, amax, None, "int8", axes, True)
    same_bits(got, fake_quantize_formula.fake_quantize(x.cpu(), amax, None, "int8", axes, True))
    assert got.stride() == torch.empty_like(x).stride()


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5000,)], ids=str)
def test_any_size(shape: tuple[int, ...]) -> None:
    x = torch.linspace(-3, 3, int(np.prod(shape))).reshape(shape)
    call = (torch.tensor(2.0), None, "int8", None, False)
    placed = x.to(DEVICE)
    same_bits(kernels.fake_quantize(placed, *call), fake_quantize_formula.fake_quantize(x, *call))
    masked = kernels.fake_quantize_backward(placed, placed, *call)
    same_bits(masked, fake_quantize_formula.fake_quantize_backward(x, x, *call))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize(("shape", "axes"), [((5000,), []), ((3, 4, 50), [1]), ((200, 100), [0])], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.bfloat16], ids=str)
def test_both_ends_equal_numerics(shape: tuple[int, ...], axes: list[int], dtype: torch.dtype) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)
    for end, want in zip(
        kernels.min_max(x.to(DEVICE), axes), numerics.minmax(x.float(), tuple(axes) or None), strict=True
    ):
        same_bits(end, want if dtype != torch.float64 else want.astype(np.float32))
    x.view(-1)[7] = np.nan
    assert [int(end.isnan().sum()) for end in kernels.min_max(x.to(DEVICE), axes)] == [1, 1]
    zeros = torch.tensor([-0.0, -0.0], device=DEVICE)
    same_bits(kernels.min_max(zeros, [])[1], np.float32(0.0))


def test_channels_beside_each_other_are_left_to_torch() -> None:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(4))
    for end, want in zip(kernels.min_max(x.to(DEVICE), [1]), numerics.minmax(x, 1), strict=True):
        same_bits(end, want)


@pytest.mark.parametrize("size", [1, 4096, 9001])
def test_ends_and_counts_leave_out_what_is_not_finite(size: int) -> None:
    rows = torch.randn(3, size, generator=torch.Generator().manual_seed(6))
    rows[0, ::3], rows[1, 0], rows[1, -1], rows[2] = np.nan, np.inf, -np.inf, np.nan
    exponent = torch.tensor([-9, -8, -7], dtype=torch.int32)
    bins, want_bins = (torch.zeros(3, 2, BINS, dtype=torch.int64) for _ in range(2))
    by_kernel = bins.to(DEVICE)
    for got, want in zip(kernels.finite_range(rows.to(DEVICE)), on_device.finite_range(rows), strict=True):
        same_bits(got, want.numpy())
    kernels.count_pow2(rows.to(DEVICE), exponent.to(DEVICE), by_kernel)
    on_device.count_pow2(rows, exponent, want_bins)
    assert torch.equal(by_kernel.cpu(), want_bins)


@pytest.mark.parametrize("axis", [None, 1], ids=str)
def test_a_histogram_counted_by_the_kernel(axis: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [
        torch.randn(2, 3, 999, generator=torch.Generator().manual_seed(i)) * 10.0**i for i in (0, -2, 3)
    ]
    edges = torch.arange(-2100, 2100).reshape(2, 3, 700) / 64
    by_kernel, want = (MergeableCalibrator(8, axis, False) for _ in range(2))
    for batch in [*batches, edges, torch.zeros(1, 3, 1)]:
        want.collect(batch)
        with monkeypatch.context() as patch:
            patch.setattr(ops, "is_readable", lambda x: False)
            patch.setattr(ops, "kernels_for", lambda x: kernels)
            patch.setattr(on_device, "count_pow2", None)
            patch.setattr(on_device, "finite_range", None)
            by_kernel.collect(batch.to(DEVICE))
    assert by_kernel.stats == want.stats


@pytest.mark.parametrize("skip_zeros", [False, True])
@pytest.mark.parametrize("scale", [1.0, 40.0])  # of later batches, which append bins
def test_a_histogram_of_bins_as_wide_as_the_first_batch_says(
    skip_zeros: bool, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = torch.Generator().manual_seed(7)
    batches = [torch.zeros(5), torch.randn(9001, generator=draw), torch.randn(4097, generator=draw) * scale]
    by_kernel, want = (HistogramCalibrator(8, None, False, skip_zeros=skip_zeros) for _ in range(2))
    for batch in batches:
        want.collect(batch)
        with monkeypatch.context() as patch:
            patch.setattr(ops, "is_readable", lambda x: False)
            patch.setattr(ops, "kernels_for", lambda x: kernels)
            patch.setattr(on_device, "count_fixed", None)
            by_kernel.collect(batch.to(DEVICE))
    assert torch.equal(by_kernel.compute_amax("percentile"), want.compute_amax("percentile"))
    assert np.array_equal(by_kernel._calib_hist, want._calib_hist)


# ---- compiled ahead of time, for machines that are not here ----

_COMPILE = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from intact.torch.triton import elementwise, inline_formula, range_statistics

TYPES = json.loads(sys.argv[1])

def ptx(kernel, sm, constants, dtype):
    types = {n: "constexpr" if n in constants else TYPES.get(n, "*" + dtype if n.endswith("_ptr") else "i32")
             for n in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    target = GPUTarget("cuda", sm, 32)
    made = triton.compile(ASTSource(kernel, types, places), target=target, options=inline_formula.OPTIONS)
    assert len(made.asm["cubin"]) > 0  # what ptxas, which comes with Triton, made of it
    # At every launch but the first Triton compares the constants that a kernel was compiled with.
    for (name, _), (value, scope) in kernel.used_global_vals.items():
        if scope[name] != value:
            raise RuntimeError(f"{kernel.__name__}: the constant {name} does not equal itself")
    return made.asm["ptx"]

out = {}
for name, module, kernel, sm, constants, dtype in json.loads(sys.argv[2]):
    source = {"elementwise": elementwise, "statistics": range_statistics}[module]
    out[name] = ptx(getattr(source, kernel), sm, constants, dtype)
print(json.dumps(out))
"""

_INT = {"QMIN": -128.0, "QMAX": 127.0, "SYMMETRIC": True}
_UINT = {"QMIN": 0.0, "QMAX": 255.0, "SYMMETRIC": False}
_FP8 = {"QMIN": -448.0, "QMAX": 448.0, "SYMMETRIC": True}
_WHOLE = {"MANTISSA": -1, "LOWEST": 0}
_SMALL = {"MANTISSA": 3, "LOWEST": 121}
_ONE = {"ONE": True, "LONG": False}
_LONG = {"ONE": False, "LONG": True}
_SHORT = {"ONE": False, "LONG": False}
_VARIANTS: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("forward int8", "elementwise", "forward_kernel", _INT | _WHOLE | _ONE, "fp32"),
    ("forward uint8", "elementwise", "forward_kernel", _UINT | _WHOLE | _SHORT, "fp32"),
    ("forward fp8", "elementwise", "forward_kernel", _FP8 | _SMALL | _SHORT, "fp16"),
    ("forward bf16", "elementwise", "forward_kernel", _INT | _WHOLE | _LONG, "bf16"),
    ("backward int8", "elementwise", "backward_kernel", _INT | _ONE, "bf16"),
    ("backward uint8", "elementwise", "backward_kernel", _UINT | _LONG, "fp32"),
    ("range", "statistics", "range_kernel", {}, "fp16"),
    ("finite range", "statistics", "finite_range_kernel", {}, "bf16"),
    ("count", "statistics", "count_kernel", {"BINS": BINS}, "fp32"),
    ("count fixed", "statistics", "count_fixed_kernel", {"HELD": 8192, "SKIP_ZEROS": True}, "fp16"),
]
_TYPES = {
    "high_ptr": "*fp32", "low_ptr": "*fp32", "exponent_ptr": "*i32", "bins_ptr": "*i32",
    "nonfinite_ptr": "*i32", "width_ptr": "*fp32", "last_ptr": "*i64", "held_ptr": "*i32",
    "counts_ptr": "*i64",
}  # fmt: skip


@pytest.fixture(scope="module", params=[80, 90, 100], ids=lambda sm: f"sm_{sm}")
def ptx(request: pytest.FixtureRequest) -> dict[str, str]:
    """The PTX of each variant; a process of its own compiles, as this one interprets."""
    blocks = {"elementwise": elementwise.BLOCK, "statistics": range_statistics.BLOCK}
    wanted = [(n, m, k, request.param, c | {"BLOCK": blocks[m]}, t) for n, m, k, c, t in _VARIANTS]
    command = [sys.executable, "-c", _COMPILE, json.dumps(_TYPES), json.dumps(wanted)]
    ran = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "0"}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_compiled_kernels_divide_and_round_as_ieee_has_it(ptx: dict[str, str]) -> None:
    """Nothing approximate or flushed to zero, no product merged with a sum, each operation rounded."""
    assert set(ptx) == {name for name, *_ in _VARIANTS}
    for name, text in ptx.items():
        code = [line.split("//")[0].strip() for line in text.splitlines()]
        for banned in (
            "approx",
            ".full",
            "ftz",
            "fma",
            "rcp",
            "mad.f",
            "mul.f32",
            "add.f32",
            "sub.f32",
            "div.f32",
        ):
            assert not [line for line in code if banned in line], (name, banned)
        divides = "forward" in name or name in ("backward uint8", "count fixed")
        assert any(line.startswith("div.rn.f32") for line in code) == divides, name
    assert "cvt.rn.bf16" in ptx["forward bf16"] and "cvt.rn.f16" in ptx["forward fp8"]
