"""Convolutions and products with constant weights: one native convolution, in the form that pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from intact.engine.cpu.binding import Binding
from intact.engine.cpu.steps.base.epilogue import bind_epilogue
from intact.engine.cpu.steps.base.views import zero_of
from intact.engine.shapes import checksum
from intact.engine.steps import Conv, ConvTranspose, Linear
from intact.kernels import BoundEpilogue, NativeStep, View, alternatives, gemm

Weighted = Conv | ConvTranspose | Linear

Weights = NDArray[np.int8]


@dataclass(frozen=True)
class PartialConv:
    """One native_conv convolution of a layer.

    Attributes:
        x, y: Images (n, h, w, c). No byte that x says it holds is beyond what the weights are packed for.
        residual: An image like y; None: none.
        weight: int8 [out, kernel_h, kernel_w, in / groups].
        origin: The pixel of x under the first tap of y's pixel (0, 0).
        low: The low bytes, as x, where x is the high bytes of codes of 16 bits; None: codes are bytes.
        repeats: So often the layer's output channels follow one another in y's.
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
    low: View | None = None
    repeats: int = 1
    label: str = ""


def native_conv(part: PartialConv, step: Weighted, binding: Binding) -> NativeStep:
    """The native_conv convolution, in the form that is chosen."""
    tiled, forms = binding.kernels[gemm.WINOGRAD], _direct_forms(binding)
    layer, direct = _layer(part, step, binding), _best_kernel(forms, part)
    if _tiles_possible(part):
        default = tiled if _tiles_pay(part, direct, binding) else direct
        choice = binding.chooser.choose(layer, [tiled, *forms], default)
        if choice.form != tiled:
            return binding.note(_direct(choice.form, part, step, binding), choice)
        if _tiles_fit(part, step, binding):
            return binding.note(_winograd(part, step, binding), choice)
    choice = binding.chooser.choose(layer, forms, direct)
    return binding.note(_direct(choice.form, part, step, binding), choice)


def _layer(part: PartialConv, step: Weighted, binding: Binding) -> str:
    """All that the time of a layer depends on, but for the machine."""
    if not binding.chooser.asks:
        return ""
    x, y, epilogue = part.x, part.y, step.epilogue
    words = [
        f"{_by(x.sizes)} {_by(part.weight.shape[1:3])} {_by(y.sizes)}",
        f"at {_by(x.strides[:3])} {_by(y.strides[:3])}", f"strides {_by(part.strides)}",
        f"dilations {_by(part.dilations)}", f"groups {part.groups}", f"bytes to {_high(part)}",
        "codes" if binding.tensor(step.y).codes is not None else "floats",
        *([] if part.low is None else ["of 16 bits"]),
    ]  # fmt: skip
    options = (
        ("residual", part.residual),
        ("slope", epilogue.slope),
        (epilogue.activation, epilogue.activation),
    )
    words += [name for name, there in options if there]
    if gemm.is_grouped(binding.kernels[gemm.FAMILY]):  # whose speed depends on what the weights are
        words.append(f"weights {checksum(binding.plan, step.weight):08x}{part.label}")
    return ", ".join([*words, f"threads {binding.threads}"])


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _direct_forms(binding: Binding) -> list[str]:
    """The kernels that could run. Those that group weights are packed slowly, and slower than all others."""
    chosen = binding.kernels[gemm.FAMILY]
    return [chosen, *(k for k in alternatives(gemm.FAMILY) if k != chosen and not gemm.is_grouped(k))]


def _best_kernel(kernels: Sequence[str], part: PartialConv) -> str:
    """The first of the kernels that the layer's size suits: the cost model's choice."""
    pixels, window = prod(part.y.sizes[:3]), prod(part.weight.shape[1:]) * (1 if part.low is None else 2)
    channels = part.weight.shape[0] // part.groups
    fitting = (k for k in kernels if gemm.fills(k, pixels=pixels, window=window, channels=channels))
    return next(fitting, kernels[0])


def _direct(kernel: str, part: PartialConv, step: Weighted, binding: Binding) -> NativeStep:
    """The form that multiplies every pixel of every window."""
    joined = part.groups == 1 and part.dilations[1] == 1 and part.x.strides[2] == part.x.sizes[3]

    def pack() -> NDArray[np.uint8]:
        return gemm.pack(part.weight, high=_high(part), groups=part.groups, joined=joined, kernel=kernel)

    order = ".halves" if gemm.is_grouped(kernel) else ""
    apart = order if joined else f"{order}.apart{part.groups}"
    return gemm.conv(
        part.x,
        part.y,
        binding.pack_constant(step.weight, _form(kernel, part, apart), pack),
        _epilogue(part, step, binding),
        strides=part.strides,
        dilations=part.dilations,
        origin=part.origin,
        threads=binding.threads,
        zero=zero_of(binding.codes(step.x)),
        low=_low_bytes(part, step, binding),
        kernel=kernel,
    )


def _high(part: PartialConv) -> int:
    """The largest byte that a kernel can read, halos included."""
    return max(view.holds[1] for view in (part.x, part.low) if view is not None)


def _form(kernel: str, part: PartialConv, apart: str = "") -> str:
    """What packed weights are called: by all that they depend on beside the weights. A plan file from when
    the bound was no part of the name, and too low where there is a halo, or from when words lay in another
    order, has none that are used."""
    return f"{kernel}.to{_high(part)}{apart}{part.label}"


def _tiles_possible(part: PartialConv) -> bool:
    """Whether Winograd's form is meant for this convolution."""
    taps = part.weight.shape[1:3] == (3, 3) and part.strides == part.dilations == (1, 1)
    return taps and part.groups == 1 and part.low is None


def _tiles_pay(part: PartialConv, direct: str, binding: Binding) -> bool:
    """Whether the cost model finds Winograd's form faster than a kernel."""
    kernel = binding.kernels[gemm.WINOGRAD]
    channels = part.weight.shape[3]
    return gemm.winograd_pays(part.y, channels, threads=binding.threads, kernel=kernel, direct=direct)


def _tiles_fit(part: PartialConv, step: Weighted, binding: Binding) -> bool:
    """Whether Winograd's form is proved exact: once, for weights that are packed so were."""
    if binding.is_packed(step.weight, _form(binding.kernels[gemm.WINOGRAD], part)):
        return True
    binding.array(step.weight)  # compares it with its checksum
    return gemm.winograd_fits(part.weight, high=_high(part))


def _winograd(part: PartialConv, step: Weighted, binding: Binding) -> NativeStep:
    kernel = binding.kernels[gemm.WINOGRAD]

    def pack() -> NDArray[np.uint8]:
        return gemm.pack_winograd(part.weight, high=_high(part), kernel=kernel)

    packed = binding.pack_constant(step.weight, _form(kernel, part), pack)
    epilogue = _epilogue(part, step, binding)
    return gemm.winograd(
        part.x, part.y, packed, epilogue, origin=part.origin, threads=binding.threads, kernel=kernel
    )


def _weight_sums(part: PartialConv, step: Weighted, binding: Binding) -> NDArray[np.int32]:
    """Sum the weights of each output channel; plan files hold the sums, so that loading skips this."""

    def add() -> NDArray[np.int32]:
        added: NDArray[np.int32] = part.weight.sum(axis=(1, 2, 3), dtype=np.int32)
        return added

    return binding.pack_constant(step.weight, f"sums{part.label}", add)


def _low_of(step: Weighted) -> str:
    """The tensor of low bytes of what a layer reads; "": it reads bytes."""
    return "" if isinstance(step, ConvTranspose) else step.low


def _low_bytes(part: PartialConv, step: Weighted, binding: Binding) -> gemm.LowBytes | None:
    if part.low is None or isinstance(step, ConvTranspose):
        return None
    return gemm.LowBytes(part.low, step.shift, _zeros(part, step, binding, step.x).astype(np.int32))


def _zeros(part: PartialConv, step: Weighted, binding: Binding, x: str) -> NDArray[np.int64]:
    """What the zero point of `x` adds to each channel's sum."""
    return -zero_of(binding.codes(x)) * _weight_sums(part, step, binding).astype(np.int64)


def _epilogue(part: PartialConv, step: Weighted, binding: Binding) -> BoundEpilogue:
    channels, key = part.weight.shape[0], ("epilogue", step.y, part.label, str(part.repeats))
    _weight_sums(part, step, binding)  # plan files have them, whichever set of sizes was bound first

    def make() -> BoundEpilogue:
        zeros = _zeros(part, step, binding, _low_of(step) or step.x)
        repeats = part.repeats
        return bind_epilogue(
            step.epilogue, step.y, binding, channels=channels, repeats=repeats, correction=zeros
        )

    bound = binding.prepared.keep(key, make)
    return bound if part.residual is None else replace(bound, residual=part.residual)
