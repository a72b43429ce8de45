"""Native steps for layers with integer sums and constant weights: Conv, ConvTranspose and Linear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from intact.engine.bind.core import Binding, Halo, binder, dtype_of
from intact.engine.bind.planes import bind_depthwise, grid_of, is_depthwise, zero_of
from intact.engine.plan import Plan
from intact.engine.steps import Conv, ConvTranspose, Linear
from intact.kernels import gemm, planes
from intact.kernels.program import SLACK, NativeStep, View

Layer = Conv | ConvTranspose | Linear
Weights = NDArray[np.int8]


@dataclass(frozen=True)
class _Part:
    """One native convolution of a layer.

    Attributes:
        x, y: Images (n, h, w, c). No byte that x says it holds is beyond what the weights are packed for.
        residual: An image like y; None: none.
        weight: int8 [out, kernel_h, kernel_w, in / groups].
        origin: The pixel of x under the first tap of y's pixel (0, 0).
        label: Tells the weights of the parts of a layer apart, of all layers that share them: the taps.
    """

    x: View
    y: View
    residual: View | None
    weight: Weights
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    origin: tuple[int, int] = (0, 0)
    groups: int = 1
    label: str = ""


def _conv_halo(step: Conv, _: Plan) -> dict[str, Halo]:
    return {step.x: step.pads}


@binder("conv", halo=_conv_halo, images=True, in_place=("residual",))
def bind_conv(step: Conv, binding: Binding) -> list[NativeStep]:
    """A convolution; one of each channel by itself has kernels of its own."""
    if is_depthwise(step, binding):
        return bind_depthwise(step, binding)
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    part = _Part(
        binding.image(step.x),
        binding.image(step.y),
        residual,
        binding.weight(step.weight),
        step.strides,
        step.dilations,
        (-step.pads[0], -step.pads[1]),
        step.groups,
    )
    return [_native(part, step, binding)]


@binder("linear", in_place=("residual",))
def bind_linear(step: Linear, binding: Binding) -> list[NativeStep]:
    """A matrix of rows: an image of one row of pixels, or of as many axes as there are.

    Where a row's elements are no neighbours (those of an image of width 2, channels last), it is copied.
    """
    before: list[NativeStep] = []

    def gathered(name: str) -> View:
        view = binding.view(name)
        if (rows := _rows(view)) is not None:
            return rows
        dense = binding.temporary(dtype_of(binding.tensor(name)), tuple(view.sizes))
        before.append(planes.copy(view, dense))
        return _dense_rows(dense)

    x = gathered(step.x)
    residual = gathered(step.epilogue.residual) if step.epilogue.residual else None
    weight = binding.weight(step.weight)[:, None, None, :]
    y = binding.view(step.y)
    if (rows := _rows(y)) is not None:
        return [*before, _native(_Part(x, rows, residual, weight), step, binding)]
    dense = binding.temporary(dtype_of(binding.tensor(step.y)), tuple(y.sizes))
    part = _Part(x, _dense_rows(dense), residual, weight)
    return [*before, _native(part, step, binding), planes.copy(dense, y)]


def _dense_rows(view: View) -> View:
    rows = _rows(view)
    assert rows is not None, "dense memory is rows"
    return rows


def _rows(view: View) -> View | None:
    """A tensor as (n, h, w, c), its last axis being c; None where that is no row of neighbours."""
    sizes, strides = list(view.sizes), list(view.strides)
    if sizes[-1] <= 1:
        strides[-1] = view.itemsize  # a single element leads nowhere
    if strides[-1] != view.itemsize:
        return None
    while len(sizes) < 4:
        sizes, strides = [1, *sizes], [0, *strides]
    while len(sizes) > 4:
        if strides[0] != strides[1] * sizes[1] and 0 not in sizes:
            return None
        sizes, strides = [sizes[0] * sizes[1], *sizes[2:]], strides[1:]
    return view.part(view.offset, sizes, strides)


@dataclass(frozen=True)
class _Phase:
    """Along one axis, every stride-th output of a transposed convolution: a convolution of stride 1.

    Attributes:
        first: The first of these outputs.
        taps: The kernel's taps that reach them, in the order of the inputs that they read; may be empty.
        origin: The input under the first of these taps at output `first`.
        dilation: From tap to tap, in inputs.
    """

    first: int
    taps: tuple[int, ...]
    origin: int
    dilation: int


def _phases(taps: int, stride: int, dilation: int, pad: int) -> list[_Phase]:
    """Output o takes tap k from input (o + pad - k * dilation) / stride, where that is a whole number."""
    apart = dilation // gcd(stride, dilation)
    phases = []
    for first in range(stride):
        reach = [k for k in reversed(range(taps)) if (first + pad - k * dilation) % stride == 0]
        origin = (first + pad - reach[0] * dilation) // stride if reach else 0
        phases.append(_Phase(first, tuple(reach), origin, apart))
    return phases


def _transposed_halo(step: ConvTranspose, plan: Plan) -> dict[str, Halo]:
    """How far outputs reach beyond the input, whatever its size."""
    kernel = plan.constants[step.weight].shape[1:3]
    before, behind = [], []
    for axis in range(2):
        reach = (kernel[axis] - 1) * step.dilations[axis]
        pad_before, pad_behind = step.pads[axis], step.pads[axis + 2]
        before.append(max(0, (reach - pad_before) // step.strides[axis]))
        behind.append(max(0, (reach + step.output_padding[axis] - pad_behind) // step.strides[axis]))
    return {step.x: (before[0], before[1], behind[0], behind[1])}


@binder("conv_transpose", halo=_transposed_halo, images=True)
def bind_conv_transpose(step: ConvTranspose, binding: Binding) -> list[NativeStep]:
    """One convolution for each phase of the strides, which writes the outputs of that phase."""
    return [_native(part, step, binding) for part in _transposed_parts(step, binding)]


def _transposed_parts(step: ConvTranspose, binding: Binding) -> Iterator[_Part]:
    x, y, weight = binding.image(step.x), binding.image(step.y), binding.weight(step.weight)
    residual = binding.image(step.epilogue.residual) if step.epilogue.residual else None
    axes = [_phases(weight.shape[1 + i], step.strides[i], step.dilations[i], step.pads[i]) for i in range(2)]
    for h in axes[0]:
        for w in axes[1]:
            if h.first >= y.sizes[1] or w.first >= y.sizes[2]:
                continue
            firsts = h.first, w.first
            part = _Part(
                x,
                _every(y, firsts, step.strides),
                _every(residual, firsts, step.strides) if residual else None,
                weight[:, h.taps][:, :, w.taps],
                dilations=(h.dilation, w.dilation),
                origin=(h.origin, w.origin),
                groups=step.groups,
                label=f".{_named(h.taps)}.{_named(w.taps)}",
            )
            yield part if h.taps and w.taps else _untouched(part, binding)


def _named(taps: tuple[int, ...]) -> str:
    """Every so many taps of a kernel."""
    return f"{taps[0]}-{taps[-1]}-{len(taps)}" if taps else "none"


def _every(image: View, first: tuple[int, int], strides: tuple[int, int]) -> View:
    """Every stride-th pixel of an image, from `first` on."""
    n, h, w, c = image.sizes
    image_stride, row, pixel, step = image.strides
    offset = image.offset + first[0] * row + first[1] * pixel
    sizes = (n, -(-(h - first[0]) // strides[0]), -(-(w - first[1]) // strides[1]), c)
    return image.part(offset, sizes, (image_stride, row * strides[0], pixel * strides[1], step))


def _untouched(part: _Part, binding: Binding) -> _Part:
    """Outputs that no tap reaches: one tap of weight 0, on a pixel of their own: x may have none."""
    (n, h, w, _), channels = part.y.sizes, part.x.sizes[3]
    still = binding.hold(np.zeros(channels + SLACK, np.uint8)).part(0, (n, h, w, channels), (0, 0, 0, 1))
    nothing = np.zeros((part.weight.shape[0], 1, 1, part.weight.shape[3]), np.int8)
    return _Part(still, part.y, part.residual, nothing, groups=part.groups, label=part.label)


def _native(part: _Part, step: Layer, binding: Binding) -> NativeStep:
    if _tiles_pay(part, binding) and _tiles_fit(part, step, binding):
        return _winograd(part, step, binding)
    kernel = binding.kernels[gemm.FAMILY]
    joined = part.groups == 1 and part.dilations[1] == 1 and part.x.strides[2] == part.x.sizes[3]

    def pack() -> NDArray[np.uint8]:
        return gemm.pack(part.weight, high=_high(part), groups=part.groups, joined=joined, kernel=kernel)

    apart = "" if joined else f".apart{part.groups}"
    return gemm.conv(
        part.x,
        part.y,
        binding.packed(step.weight, _form(kernel, part, apart), pack),
        _epilogue(part, step, binding),
        strides=part.strides,
        dilations=part.dilations,
        origin=part.origin,
        kernel=kernel,
    )


def _high(part: _Part) -> int:
    """The largest byte that a kernel can read of x, its halo included."""
    return part.x.holds[1]


def _form(kernel: str, part: _Part, apart: str = "") -> str:
    """What packed weights are called: by all that they depend on beside the weights. So a plan file from when
    the bound was no part of the name, and too low where there is a halo, has none that are used."""
    return f"{kernel}.to{_high(part)}{apart}{part.label}"


def _tiles_pay(part: _Part, binding: Binding) -> bool:
    """Whether Winograd's form is meant for this convolution, and faster."""
    taps = part.weight.shape[1:3] == (3, 3) and part.strides == part.dilations == (1, 1)
    if not taps or part.groups > 1:
        return False
    kernel = binding.kernels[gemm.WINOGRAD]
    return gemm.winograd_pays(part.y, part.weight.shape[3], threads=binding.threads, kernel=kernel)


def _tiles_fit(part: _Part, step: Layer, binding: Binding) -> bool:
    """Whether Winograd's form is proved exact: once, for weights that are packed so were."""
    if binding.is_packed(step.weight, _form(binding.kernels[gemm.WINOGRAD], part)):
        return True
    binding.array(step.weight)  # compares it with its checksum
    return gemm.winograd_fits(part.weight, high=_high(part))


def _winograd(part: _Part, step: Layer, binding: Binding) -> NativeStep:
    kernel = binding.kernels[gemm.WINOGRAD]

    def pack() -> NDArray[np.uint8]:
        return gemm.pack_winograd(part.weight, high=_high(part), kernel=kernel)

    packed = binding.packed(step.weight, _form(kernel, part), pack)
    epilogue = _epilogue(part, step, binding)
    return gemm.winograd(
        part.x, part.y, packed, epilogue, origin=part.origin, threads=binding.threads, kernel=kernel
    )


def _weight_sums(part: _Part, step: Layer, binding: Binding) -> NDArray[np.int32]:
    """Of each output channel; kept with the packed weights, so that a plan file starts without summing."""

    def add() -> NDArray[np.int32]:
        added: NDArray[np.int32] = part.weight.sum(axis=(1, 2, 3), dtype=np.int32)
        return added

    return binding.packed(step.weight, f"sums{part.label}", add)


def _epilogue(part: _Part, step: Layer, binding: Binding) -> gemm.Epilogue:
    epilogue, channels = step.epilogue, part.weight.shape[0]
    correction = -zero_of(binding.codes(step.x)) * _weight_sums(part, step, binding).astype(np.int64)
    if epilogue.integer_bias:
        correction = correction + binding.array(epilogue.integer_bias)
    codes = binding.tensor(step.y).codes
    clamps = not epilogue.activation  # a function's output has the whole grid, or all floats
    grid = (
        grid_of(codes, epilogue.low if clamps else None, epilogue.high if clamps else None) if codes else None
    )
    return gemm.Epilogue(
        multiplier=np.broadcast_to(binding.array(epilogue.multiplier), channels),
        bias=np.broadcast_to(binding.array(epilogue.bias) if epilogue.bias else np.float32(0), channels),
        correction=correction.astype(np.int32),
        zero_point=grid.zero if grid else 0,
        low=grid.low if grid else 0,
        high=grid.high if grid else 255,
        real_low=epilogue.low if clamps and epilogue.low is not None else -np.inf,
        real_high=epilogue.high if clamps and epilogue.high is not None else np.inf,
        residual=part.residual,
        residual_multiplier=epilogue.residual_multiplier,
        residual_zero_point=zero_of(binding.codes(epilogue.residual)) if epilogue.residual else 0,
        function=epilogue.activation,
        scale=codes.scale if codes else 1.0,
        factors=np.broadcast_to(binding.array(epilogue.factors), channels) if epilogue.factors else None,
        slopes=np.broadcast_to(binding.array(epilogue.slope), channels) if epilogue.slope else None,
    )
