"""`QuantDescriptor` says how one tensor is quantized, with the old library's names."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import yaml

from intact.errors import QuantValueError, UnsupportedError
from intact.safe_yaml import read_yaml
from intact.spec import MAX_BITS, MIN_BITS
from intact.torch.alias import OLD_NAME, is_aliased

CALIB_METHODS = ("max", "histogram", "mergeable")
LEARNED_KINDS = ("lsq", "lsq+", "pact")
"""Kinds of learned ranges. True means the old library's clip in front of the quantizer, too."""
FLOAT_FORMATS = {(4, 3): "fp8e4m3", (5, 2): "fp8e5m2"}
_DEFAULTS: dict[str, Any] = {
    "fake_quant": True,
    "axis": None,
    "amax": None,
    "learn_amax": False,
    "scale_amax": None,
    "calib_method": "max",
    "unsigned": False,
    "narrow_range": False,
    "symmetric": True,
}


class ScaledQuantDescriptor:
    """Describes a tensor's quantization: grid, granularity, range, and how the range is chosen.

    Args:
        num_bits: 2..16 for an integer grid, or ``(4, 3)`` / ``(5, 2)`` for FP8 E4M3 / E5M2.
        name: What to call the tensor in messages.

    Keyword Args:
        fake_quant: True: quantize and dequantize. False: return the codes.
        axis: None, int or tuple of ints: the axes that keep a range of their own.
        amax: Number, list or array: a fixed range, in the unit of the tensor. Wins over calibration.
        learn_amax: True: the bounds of a clip are parameters (PACT), per-tensor only, as in the old library.
            "lsq", "lsq+", "pact": the range itself is one, per-tensor or per-channel, with the gradient of
            `intact.torch.operators.learned_ranges`; "lsq+" and "pact" learn both ends of an asymmetric range.
        scale_amax: Factor on amax, for quick experiments.
        calib_method: "max", "histogram" (the old library's bins) or "mergeable" (`intact.calib.Histogram`).
        unsigned: True: the grid starts at 0.
        narrow_range: True: drop the extra negative code.
        symmetric: False: the range is [min, max] with a zero point (not in the old library).

    Raises:
        UnsupportedError: (a TypeError) A value of a wrong type, a key that does not exist, or a
            combination that has no meaning.
        QuantValueError: (a ValueError) A value of the right type that is out of range.
    """

    def __init__(self, num_bits: int | tuple[int, int] = 8, name: str | None = None, **kwargs: Any) -> None:
        self._num_bits = _check_bits(num_bits)
        if name is not None and not isinstance(name, str):
            raise UnsupportedError(
                "QuantDescriptor name", repr(name), "name must be a string or None", "pass name='...'"
            )
        self._name = name
        values = {key: kwargs.pop(key, default) for key, default in _DEFAULTS.items()}
        if kwargs:
            raise UnsupportedError(
                "QuantDescriptor",
                f"Unused keys: {sorted(kwargs)}",
                f"keys among {sorted(_DEFAULTS)}",
                "correct the spelling, or drop them",
            )
        self._fake_quant = bool(values["fake_quant"])
        self._axis = _check_axis(values["axis"])
        self._amax = _check_amax(values["amax"])
        self._learn_amax = _check_learning(values["learn_amax"])
        self._scale_amax = values["scale_amax"]
        self._calib_method = values["calib_method"]
        self._unsigned = bool(values["unsigned"])
        self._narrow_range = bool(values["narrow_range"])
        self._symmetric = bool(values["symmetric"])
        self._check_combination()

    def _check_combination(self) -> None:
        if self._calib_method not in CALIB_METHODS:
            raise QuantValueError(
                "QuantDescriptor calib_method",
                repr(self._calib_method),
                f"one of {CALIB_METHODS}",
                "methods such as 'mse' are chosen later: compute_amax('mse') on a histogram calibrator",
            )
        if isinstance(self._learn_amax, str):
            self._check_learned(self._learn_amax)
        if self._learn_amax is True and self._axis is not None:
            raise UnsupportedError(
                "QuantDescriptor learn_amax",
                f"learn_amax with axis={self._axis}: axis is ignored and must be None",
                "a learned clip, which is per-tensor",
                "drop axis or learn_amax, or choose learn_amax='lsq'",
            )
        if self._symmetric:
            return
        if self._learn_amax is True or not self._fake_quant or isinstance(self._num_bits, tuple):
            raise UnsupportedError(
                "QuantDescriptor symmetric",
                "symmetric=False with learn_amax=True, fake_quant=False or a float format",
                "an asymmetric range only with fake_quant=True, integer num_bits and no learned clip",
                "use symmetric=True",
            )
        if self._amax is not None:
            raise UnsupportedError(
                "QuantDescriptor amax",
                "amax with symmetric=False",
                "no amax: an asymmetric range has two ends",
                "calibrate, or set TensorQuantizer.set_range(rmin, rmax)",
            )

    def _check_learned(self, kind: str) -> None:
        if not self._fake_quant or isinstance(self._num_bits, tuple):
            raise UnsupportedError(
                "QuantDescriptor learn_amax",
                f"learn_amax={kind!r} with fake_quant=False or a float format",
                "fake_quant=True and integer num_bits",
                "drop learn_amax",
            )
        if kind == "lsq" and not self._symmetric:
            raise UnsupportedError(
                "QuantDescriptor learn_amax",
                "learn_amax='lsq' with symmetric=False",
                "a symmetric range: LSQ learns the step alone",
                "choose 'lsq+', which learns an offset besides",
            )

    # ---- read-only properties ----
    @property
    def num_bits(self) -> int | tuple[int, int]:
        return self._num_bits

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def fake_quant(self) -> bool:
        return self._fake_quant

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        return self._axis

    @property
    def amax(self) -> np.ndarray | None:
        """float32, 0-D for one number."""
        return None if self._amax is None else np.asarray(self._amax, np.float32)

    @property
    def learn_amax(self) -> bool | str:
        return self._learn_amax

    @property
    def scale_amax(self) -> float | None:
        return self._scale_amax  # type: ignore[no-any-return]

    @property
    def calib_method(self) -> str:
        return self._calib_method  # type: ignore[no-any-return]

    @property
    def unsigned(self) -> bool:
        return self._unsigned

    @property
    def narrow_range(self) -> bool:
        return self._narrow_range

    @property
    def symmetric(self) -> bool:
        return self._symmetric

    # ---- comparison and files ----
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScaledQuantDescriptor):
            return NotImplemented
        mine, theirs = dict(self.__dict__), dict(other.__dict__)
        a, b = mine.pop("_amax"), theirs.pop("_amax")
        same_amax = (a is None) == (b is None) and (a is None or np.array_equal(a, b))
        return mine == theirs and bool(same_amax)

    def __hash__(self) -> int:
        return hash((self._num_bits, self._name, self._axis, self._unsigned, self._narrow_range))

    def dict(self) -> dict[str, Any]:
        """Return num_bits, name and everything that is not the default; `QuantDescriptor(**d.dict())
        == d`.
        """
        options: dict[str, Any] = {"num_bits": self._num_bits, "name": self._name}
        for key, default in _DEFAULTS.items():
            value = getattr(self, f"_{key}")
            if isinstance(value, np.ndarray) or value != default:
                options[key] = value
        return options

    def to_yaml(self) -> str:
        """Return `dict` as YAML; arrays and tuples become lists."""
        plain = {key: _plain(value) for key, value in self.dict().items()}
        return yaml.safe_dump(plain, sort_keys=True)

    @classmethod
    def from_yaml(cls, yaml_str: str) -> Self:
        """Return the descriptor that `to_yaml` wrote.

        Raises:
            QuantValueError: The text is not a YAML mapping from names, or asks for more than `intact.limits`.
        """
        values = read_yaml(yaml_str, "QuantDescriptor.from_yaml", QuantValueError)
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise _bad_yaml(type(values).__name__)
        if isinstance(values.get("num_bits"), list):
            values["num_bits"] = tuple(values["num_bits"])
        return cls(**values)

    def __str__(self) -> str:
        words = ["unsigned " if self._unsigned else "", f"{self._num_bits}bit"]
        words.append(" fake" if self._fake_quant else " real")
        words.append(" per-tensor" if self._axis is None else f" axis={self._axis}")
        if self._amax is not None:
            words.append(f" amax={np.array2string(np.asarray(self._amax), precision=4, threshold=8)}")
        words.append(" narrow" if self._narrow_range else " full_range")
        words.append(" learn_amax" if self._learn_amax else "")
        words.append(f"={self._learn_amax}" if isinstance(self._learn_amax, str) else "")
        words.append(f" scale_amax={self._scale_amax}" if self._scale_amax else "")
        words.append("" if self._symmetric else " asymmetric")
        label = f"{self._name}: " if self._name is not None else "QuantDescriptor"
        return f"{label}({''.join(words)})"

    __repr__ = __str__


QuantDescriptor = ScaledQuantDescriptor


def format_name(num_bits: int | tuple[int, int], unsigned: bool) -> str:
    """Return the `intact.spec.Format` name of the old library's pair (num_bits, unsigned)."""
    if isinstance(num_bits, tuple):
        return FLOAT_FORMATS[num_bits]
    return f"{'u' if unsigned else ''}int{num_bits}"


def float_formats() -> dict[tuple[int, int], str]:
    """Return `FLOAT_FORMATS`; under the old library's name only E4M3, with its TypeError for others."""
    return {bits: name for bits, name in FLOAT_FORMATS.items() if bits == (4, 3) or not is_aliased()}


def _check_bits(num_bits: Any) -> int | tuple[int, int]:
    if isinstance(num_bits, tuple) and num_bits in float_formats():
        return num_bits
    if isinstance(num_bits, tuple) and num_bits in FLOAT_FORMATS:
        raise UnsupportedError(
            "QuantDescriptor num_bits", f"{num_bits} under the name {OLD_NAME}", "(4, 3), as in that library",
            "import intact.torch and do without its alias",
        )  # fmt: skip
    if isinstance(num_bits, bool) or not isinstance(num_bits, (int, np.integer)):
        raise UnsupportedError(
            "QuantDescriptor num_bits",
            repr(num_bits),
            "num_bits must be a positive integer or tuple (4,3) or (5,2)",
            "pass for example num_bits=8",
        )
    if not MIN_BITS <= num_bits <= MAX_BITS:
        raise QuantValueError(
            "QuantDescriptor num_bits",
            str(num_bits),
            f"num_bits must be in {MIN_BITS}..{MAX_BITS}",
            "pass for example num_bits=8",
        )
    return int(num_bits)


def _check_learning(learn_amax: Any) -> bool | str:
    if not isinstance(learn_amax, str):
        return bool(learn_amax)
    if learn_amax not in LEARNED_KINDS:
        raise QuantValueError(
            "QuantDescriptor learn_amax",
            repr(learn_amax),
            f"True, False or one of {LEARNED_KINDS}",
            "choose one of these",
        )
    return learn_amax


def _check_axis(axis: Any) -> int | tuple[int, ...] | None:
    if axis is None:
        return None
    many = axis if isinstance(axis, (tuple, list)) else (axis,)
    if not all(isinstance(a, (int, np.integer)) and not isinstance(a, bool) for a in many):
        raise UnsupportedError(
            "QuantDescriptor axis",
            repr(axis),
            "axis must be None, int or tuple of ints",
            "pass for example axis=0",
        )
    return tuple(int(a) for a in axis) if isinstance(axis, (tuple, list)) else int(axis)


def _check_amax(amax: Any) -> float | np.ndarray | None:
    if amax is None:
        return None
    if isinstance(amax, (int, float, np.integer, np.floating)) and not isinstance(amax, bool):
        return float(amax)
    if isinstance(amax, (list, tuple, np.ndarray)):
        try:
            array = np.asarray(amax, np.float32)
        except (ValueError, TypeError):
            pass
        else:
            return float(array) if array.ndim == 0 else array
    raise UnsupportedError(
        "QuantDescriptor amax",
        type(amax).__name__,
        "amax must be float, list or ndarray",
        "convert it, for example with amax.tolist()",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _bad_yaml(got: str) -> QuantValueError:
    return QuantValueError(
        "QuantDescriptor.from_yaml", got, "a YAML mapping", "pass the text that to_yaml wrote"
    )
