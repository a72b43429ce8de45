"""The user's settings for a whole run and for single layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, Literal

from intact.calib import METHODS, Calibration, MethodOptions
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import FORMAT_OPSETS, check_format
from intact.job_pool import JobPool
from intact.numerics import SHORT_BITS
from intact.patterns import check_patterns, no_option
from intact.placement import Profile, profile_of
from intact.ptq.scope.preset_grids import KEYS as GRID_KEYS
from intact.ptq.scope.preset_grids import PresetGrid, grid_by_hand
from intact.spec import INT16, Format, check_block_size, check_bool, is_whole

BLOCK = 32
"""Elements of a 4-bit weight that share a scale, along the axis that a MatMul or Gemm sums over."""

MOST_AXES = 64
"""Dimensions that an array of NumPy can have."""

FLOAT_BUDGET = 0.4
"""Limit on the time of layers left in float, as a part of the predicted time of the whole model."""

_KEYS = ("format", "activations", "weights", "method", "axis", "block_size", "symmetric", *GRID_KEYS)
WEIGHT_ONLY = ("int4", "uint4")


@dataclass(frozen=True)
class LayerSettings:
    """Says how the inputs of one node are quantized.

    Attributes:
        activations, weights: Format names; "float": not at all.
        method: For activations: one of `METHODS` or "auto".
        symmetric: For activations.
        axis: Of weights: "channel", where placement says; None: one scale; or a number.
        block_size: Of weights; None: no blocks but for 4-bit formats.
        scale_bits: Ranges are widened until scales have so many significant bits, see `numerics.short_amax`;
            None: they are not. Those of 4-bit weights never are: their layers compute in float.
        grid: That is given, of activations or of one weight; None: it is chosen.
    """

    activations: str = "int8"
    weights: str = "int8"
    method: str = "auto"
    symmetric: bool = True
    axis: Literal["channel"] | int | None = "channel"
    block_size: int | None = None
    scale_bits: int | None = SHORT_BITS
    grid: PresetGrid | None = None

    def __post_init__(self) -> None:
        for name in ("activations", "weights"):
            format_name = getattr(self, name)
            if format_name != "float":
                format_name = Format.parse(format_name).name
                object.__setattr__(self, name, format_name)
                _one_of(name, format_name, FORMAT_OPSETS)
        _one_of("method", self.method, (*METHODS, "auto"))
        object.__setattr__(self, "symmetric", check_bool("symmetric", self.symmetric))
        object.__setattr__(self, "block_size", check_block_size(self.block_size))
        if not (self.axis is None or self.axis == "channel" or _is_axis(self.axis)):
            raise QuantValueError(
                "axis", f"{self.axis!r:.60}", "'channel', None or an integer", "leave it out for 'channel'"
            )
        if self.scale_bits is not None and not (is_whole(self.scale_bits) and self.scale_bits in range(1, 9)):
            raise QuantValueError("scale_bits", repr(self.scale_bits), "1..8, or None", "leave it out for 4")


def _is_axis(value: object) -> bool:
    return is_whole(value) and -MOST_AXES <= value < MOST_AXES  # type: ignore[operator]


Overrides = Mapping[str, Mapping[str, Any]]
Switch = bool | str
"""True, False, or "auto": where it helps."""

Bits16 = str | Sequence[str]
""""never", "auto": where outputs need them, or patterns of names that get 16 bits."""


@dataclass(frozen=True)
class Settings:
    """Holds the arguments of `intact.ptq.quantize`; those of calibration methods are in `options`.

    `pool` is none of what tells two runs apart: it changes no answer.
    """

    method: str = "auto"
    profile: str | Profile = "intact"
    activations: str | None = None
    weights: str = "int8"
    symmetric: bool = True
    per_channel: bool = True
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    overrides: Overrides | None = None
    opset: int | None = None
    num_batches: int | None = None
    batch_size: int | None = None
    bias_correction: Switch = "auto"
    equalization: Switch = "auto"
    rounding: Switch = "auto"
    scale_bits: int | None = SHORT_BITS
    bits16: Bits16 = "never"
    float_budget: float | None = None
    progress: bool = True
    pool: JobPool | None = field(default=None, repr=False, compare=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    ranges: Calibration | None = field(default=None, repr=False, compare=False)
    dynamic_ranges: Switch = "auto"
    layer: LayerSettings = field(init=False)

    def __post_init__(self) -> None:
        layer = LayerSettings(
            activations=self.activations or profile_of(self.profile).grid, weights=self.weights,
            method=self.method, symmetric=self.symmetric, axis="channel" if self.per_channel else None,
            scale_bits=self.scale_bits,
        )  # fmt: skip
        object.__setattr__(self, "layer", layer)
        for name in ("include", "exclude"):
            object.__setattr__(self, name, check_patterns(name, getattr(self, name)))
        _check_options(self.options)
        for name, value in self._switches():
            if value not in (True, False, "auto"):
                raise QuantValueError(name, repr(value), "True, False or 'auto'", "choose one of these")
        object.__setattr__(self, "bits16", _normalize_bits16(self.bits16))
        if self.bits16 != "never":
            self._require_16_bits()
        self._check_budget()

    def _check_budget(self) -> None:
        budget = self.float_budget
        if budget is None:
            return
        if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget < inf:
            raise QuantValueError(
                "float_budget", f"{budget!r:.60}", "a part of the time, 0 or more", "write 0.2 for a fifth"
            )

    @property
    def has_gate(self) -> bool:
        """Return whether every output has to reach `GATE_DB`, whatever that takes: where nobody said else."""
        by_default = self.float_budget is None and self.bits16 == "never"
        return by_default and profile_of(self.profile).name == "intact"

    @property
    def budget(self) -> float:
        """The float budget: the profile's by default, 0 where 16 bits are requested."""
        if self.float_budget is None:
            return FLOAT_BUDGET if self.has_gate else 0.0
        return float(self.float_budget)

    def _require_16_bits(self) -> None:
        """Refuse what cannot hold codes of 16 bits before the data are read."""
        profile = profile_of(self.profile)
        if not profile.bits16:
            raise UnsupportedError(
                "bits16", f"{self.bits16!r:.60} for {profile.name}",
                f"'never': {profile.name} does not read codes of 16 bits",
                "leave it out (--bits16), or keep the layers that need more in float: exclude (--exclude)",
            )  # fmt: skip
        if self.opset is not None:
            try:
                check_format(INT16, self.opset)
            except UnsupportedError as error:
                raise error.at("bits16") from None

    @property
    def may_widen(self) -> bool:
        """Return whether files for this profile, of this opset, can hold codes of 16 bits."""
        try:
            self._require_16_bits()
        except UnsupportedError:
            return False
        return True

    @property
    def may_be_dynamic(self) -> bool:
        """Return whether linear layers may get the ranges of their inputs while the model runs."""
        if self.dynamic_ranges == "auto":  # other engines read pairs, and formats that were asked for stay
            by_hand = self.activations is not None or self.bits16 != "never" or not self.symmetric
            return profile_of(self.profile).name == "intact" and not by_hand
        return bool(self.dynamic_ranges)

    def _switches(self) -> list[tuple[str, Switch]]:
        return [
            ("bias_correction", self.bias_correction), ("equalization", self.equalization),
            ("rounding", self.rounding), ("dynamic_ranges", self.dynamic_ranges),
        ]  # fmt: skip

    def require_no_data(self) -> None:
        """Refuse settings that need data.

        Raises:
            QuantValueError: Something was.
        """
        if self.bits16 == "auto":
            raise QuantValueError(
                "bits16", "'auto' with statistics instead of data", "data to measure on",
                "give data, or patterns of the names that get 16 bits",
            )  # fmt: skip
        for name, value in self._switches():
            if value is True:
                raise QuantValueError(
                    name,
                    "True with statistics instead of data",
                    "data to measure on",
                    "give data, or leave it out",
                )


def with_override(base: LayerSettings, pattern: str, entry: Mapping[str, Any]) -> LayerSettings:
    """Return `base`, changed as one entry of overrides says.

    Args:
        base: Settings of all layers.
        pattern: As errors name it.
        entry: Values by key: "format", "method", ...
    Raises:
        QuantValueError: An unknown key or value; names the pattern.
    """
    where = f"overrides[{pattern!r}]"
    if not isinstance(entry, Mapping):
        raise QuantValueError(where, f"{entry!r:.60}", "a mapping of settings", 'write {"format": "int16"}')
    if unknown := [key for key in entry if key not in _KEYS]:
        raise QuantValueError(
            where, f"{unknown[0]!r:.60}", f"keys among {', '.join(_KEYS)}", "correct the key"
        )
    changes = {key: value for key, value in entry.items() if key not in ("format", *GRID_KEYS)}
    try:
        if (format_name := entry.get("format")) is not None:
            changes = _of_format(format_name) | changes
        settings = replace(base, **changes)
        if settings.activations == "float":
            return settings
        grid = grid_by_hand(entry, settings.activations)
        return settings if grid is None else with_grid(settings, grid)
    except QuantValueError as error:
        raise error.at(where) from None


def with_grid(settings: LayerSettings, grid: PresetGrid) -> LayerSettings:
    """Return `settings` of an activation on a grid that is given."""
    format, symmetric = grid.format or settings.activations, grid.symmetric
    if not grid.format:  # a range alone: the grid is of the kind that was asked for
        signed = Format.parse(format).signed
        symmetric = settings.symmetric and (signed or grid.low[0] == 0)
        if symmetric and signed:
            amax = max(-grid.low[0], grid.high[0])
            grid = replace(grid, low=(-amax,), high=(amax,))
    return replace(
        settings, activations=format, method="auto", symmetric=symmetric, scale_bits=None, grid=grid
    )


def _of_format(name: str) -> dict[str, str]:
    """Expand one format for a layer: 4-bit formats apply to weights alone, 16-bit ones to activations."""
    if name == "float":
        return {"activations": "float", "weights": "float"}
    format = Format.parse(name)
    if format.name in WEIGHT_ONLY:
        return {"activations": "float", "weights": format.name}
    if format.is_float:
        return {"activations": format.name, "weights": format.name}
    return {"activations": format.name, "weights": "int8"}


_LIKE = {"per_tensor": "per_channel=False", "asymmetric": "symmetric=False", "calib": "ranges"}
"""Names in Settings of the command line's options."""


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that neither `quantize` nor a method has."""
    option_names = [option.name for option in fields(MethodOptions) if option.name != "scale_bits"]
    for name in options:
        if name not in option_names:
            names = [
                *option_names,
                *(setting.name for setting in fields(Settings) if setting.init and setting.name != "options"),
            ]
            raise no_option(name, names, _LIKE.get(name, ""))


def _normalize_bits16(value: object) -> Bits16:
    """Return `value` in its one form: a word, or a tuple of patterns."""
    if isinstance(value, str) and value in ("never", "auto"):
        return value
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(pattern, str) and pattern for pattern in value)
    ):
        return tuple(value)
    raise QuantValueError(
        "bits16", f"{value!r:.60}", "'never', 'auto', or a list of patterns of tensor or node names",
        "choose one of these; a single pattern is a list of one",
    )  # fmt: skip


def _one_of(name: str, value: str, allowed: Any) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise QuantValueError(name, f"{value!r:.60}", f"one of {', '.join(allowed)}", "choose one of these")
