"""Table of the differences between target engines that a placement depends on."""

from __future__ import annotations

from dataclasses import dataclass

from intact.errors import QuantValueError
from intact.graph import ops

_CLAMPS = frozenset({"Relu", "Clip"})
_SCALINGS = frozenset({"Mul", "Div"})  # by one number


def _curves(engine: str) -> frozenset[str]:
    """Return the functions that an engine fuses behind a layer, by the names that reports have for them."""
    names = set[str]()
    for name, record in ops.FUNCTIONS.items():
        if record.fuses and engine not in record.not_fused_by:
            names |= {name, *(variant.name or name for variant in record.variants)}
    return frozenset(names)


@dataclass(frozen=True)
class Profile:
    """Describes what one engine fuses and where it expects pairs.

    Attributes:
        name: How users choose it.
        activations: What fuses behind a weighted layer. Functions that exporters also write as several
            nodes are recognized by their values.
        tables: Functions of one tensor that run in int8 between a DequantizeLinear and a QuantizeLinear.
        multiply: Mul of two tensors runs in int8.
        moved_pairs: Operators that only move data keep a pair behind them too, with the same scale; otherwise
            Q moves up through them and they hand the codes on.
        rescales: A Concat takes parts on other grids than its own: those that others read too keep theirs;
            otherwise one scale is for all parts, and for all who read them.
        min_inner, min_outer: Smallest reduced size K and output size N at which a product pays in int8.
        min_channels: Smallest number of input and output channels of a dense convolution; 1: any.
        max_attention: Longest sequence at which products of two activations run in int8; None: any.
        norm_after_conv: A convolution writes int8 for a LayerNormalization right behind it.
        recurrent: Recurrent layers multiply their inputs in int8.
        grid: Format of activations where nobody asks for another; "uint8" has a zero point where a tensor has
            negative values.
        bits16: It reads pairs whose codes have 16 bits.
        small_floats: Its kernels multiply codes that are floats of 8 or 4 bits.
    """

    name: str
    activations: frozenset[str]
    tables: frozenset[str] = frozenset()
    multiply: bool = True
    moved_pairs: bool = False
    rescales: bool = False
    min_inner: int = 16
    min_outer: int = 2
    min_channels: int = 1
    max_attention: int | None = None
    norm_after_conv: bool = False
    recurrent: bool = False
    grid: str = "int8"
    bits16: bool = True
    small_floats: bool = False


PROFILES = {
    profile.name: profile
    for profile in (
        # Any activation is evaluated on the accumulator; between pairs it is a table of 256 codes. Kernels
        # read bytes, whatever the zero point: a grid that fits the values costs nothing.
        Profile(
            "intact", _CLAMPS | _curves("intact"), tables=_CLAMPS | _curves("intact") | _SCALINGS,
            rescales=True, recurrent=True, grid="uint8",
        ),
        # The thresholds are those of ModelOpt's ONNX quantizer, the best public account of the builder.
        Profile(
            "tensorrt", _CLAMPS | _curves("tensorrt"), multiply=False, min_outer=16,
            min_channels=16, max_attention=512, norm_after_conv=True, bits16=False,
            small_floats=True,
        ),
        # Its int8 convolutions take clamps only; what moves data wants a pair on both sides.
        Profile(
            "onnxruntime", _CLAMPS, tables=frozenset({"Sigmoid", "LeakyRelu"}), moved_pairs=True, min_outer=1
        ),
        Profile("openvino", _CLAMPS | _curves("openvino"), min_inner=1, min_outer=1),
    )
}  # fmt: skip
"""name -> Profile; "intact" is the default."""


def profile_of(profile: str | Profile) -> Profile:
    """Return the profile called `profile`; a `Profile` is returned as it is.

    Raises:
        QuantValueError: There is no such profile.
    """
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise QuantValueError(
            "profile",
            repr(profile),
            " or ".join(map(repr, PROFILES)),
            "choose the engine that will run the file",
        )
    return PROFILES[profile]
