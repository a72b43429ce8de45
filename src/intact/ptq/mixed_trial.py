"""Which tensors need 16 bits: as few as bring the outputs close enough, by trials on a few held runs.

Nothing is done where the outputs are good at 8 bits. Else the units are put in order by what each does to the
layers that read it (`local_errors`, one pass for all), and bisection finds how many of them, from the worst
on, are needed. The last one is needed for certain, whatever its place: it is put first, and the number is
looked for once more among the others. So it takes about 2 log2(n) passes for n units, and what the order was
wrong about costs a few tensors, not the result (docs/decisions/0030-sixteen-bits.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import log10

from intact.errors import UnsupportedError
from intact.ptq.bias_correction import put_corrected, with_bias_errors
from intact.ptq.choose import with_candidates
from intact.ptq.emit import with_pairs
from intact.ptq.evaluator import Evaluator, worst
from intact.ptq.local_errors import local_errors
from intact.ptq.ranges import Activations
from intact.ptq.sixteen import Unit, raised, units_of, widened
from intact.ptq.state import State
from intact.ptq.trial import TRIED

POOR_DB = 26.0
"""Signal to quantization noise of an output below which 16 bits are looked for: an error of 5%."""

ENOUGH_DB = 30.0
"""What they are to bring every output to: an error of 3%."""

_WORTH_DB = 3.0  # half of the squared error: what 16 bits everywhere must gain to be worth their speed
_STOPS_DB = 1.0  # so close to what 16 bits everywhere bring nothing more is to be gained
_ROUNDS = 2  # a third one costs log2(n) passes more, and took nothing away where it was tried


def with_bits16(state: State) -> State | None:
    """`state` with 16 bits where its outputs want them; None where they do not, or nobody asked."""
    units = units_of(state) if state.settings.bits16 == "auto" and state.runs else []
    return _by_outputs(state, units) if units else None


def _by_outputs(state: State, units: Sequence[Unit]) -> State | None:
    trial = _Trial(state)
    before = trial.before()
    if before >= POOR_DB:
        return None
    try:
        most = trial.worst(units)
    except UnsupportedError as error:
        return _with_warning(state, f"leaves the outputs at {before:.1f} dB: {error}")
    if most < before + _WORTH_DB:
        return _with_warning(
            state, f"widens nothing: it would bring the outputs from {before:.1f} to {most:.1f} dB"
        )
    goal = min(ENOUGH_DB, most - _STOPS_DB)
    local = local_errors(replace(state, runs=state.runs[:TRIED]), units)
    ranked = sorted(units, key=lambda unit: -local[unit])  # stable: equals stay in the graph's order
    chosen = set(fewest(ranked, lambda some: trial.worst(some) >= goal))
    why = {unit: _reason(before, local[unit]) for unit in units if unit in chosen}
    return with_candidates(widened(raised(state), why))


def _reason(before: float, local: float) -> str:
    alone = f"; alone they keep {-10 * log10(local):.1f} dB in the layers that read it" if local else ""
    return f"with 8 bits an output has {before:.1f} dB{alone}"


def _with_warning(state: State, why: str) -> State:
    return replace(state, warnings=(*state.warnings, f"bits16: 'auto' {why}"))


def fewest(ranked: Sequence[Unit], enough: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Few of `ranked` that are enough, where all of them are and none are not.

    Args:
        ranked: Those first that are most likely to be needed.
        enough: Whether some are. More of them are taken to be no worse.
    """
    needed, rest = list[Unit](), list(ranked)
    for _ in range(_ROUNDS):
        low, high = 0, len(rest)  # what is needed is not enough with `low` of the rest, and is with `high`
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough([*needed, *rest[:middle]]) else (middle, high)
        needed, rest = [*needed, rest[high - 1]], rest[: high - 1]
        if not rest or enough(needed):
            return needed
    return [*needed, *rest]


class _Trial:
    """What the outputs keep with 16 bits for some units, each set measured once.

    Biases are corrected for the weights of 8 bits: those of 16 move no mean.

    Args:
        state: With weights, ranges and held runs, in front of the pairs.
    """

    def __init__(self, state: State) -> None:
        state = replace(state, runs=state.runs[:TRIED])
        corrects = bool(state.settings.bias_correction)
        self._narrow = (with_bias_errors(state.with_own_model()) if corrects else None) or state
        self._method = "max"
        self._known: dict[frozenset[Unit], float] = {}

    def before(self) -> float:
        """The least signal to quantization noise ratio of an output with 8 bits everywhere, in dB.

        Trials keep whole ranges, unless clipped ones do much better here, as `choose` will have it.
        """
        whole = self._measured(self._narrow, "max")
        if whole >= POOR_DB:
            return whole
        clipped = self._measured(self._narrow, "mse")
        self._method = "mse" if clipped > whole + _WORTH_DB else "max"
        return clipped if self._method == "mse" else whole

    def worst(self, some: Sequence[Unit]) -> float:
        """The same with 16 bits for `some`.

        Raises:
            UnsupportedError: The model cannot be brought to an opset that has them.
        """
        key = frozenset(some)
        if key not in self._known:
            nodes = {node for unit in some for node in unit.nodes}
            kept = tuple(one for one in self._raised.bias_errors if one.node not in nodes)
            state = replace(widened(self._raised, dict.fromkeys(some, "")), bias_errors=kept)
            self._known[key] = self._measured(state, self._method)
        return self._known[key]

    @cached_property
    def _raised(self) -> State:
        return raised(self._narrow)

    def _measured(self, state: State, method: str) -> float:
        assert state.calibration is not None
        chooser = Activations(state.activations, state.calibration, state.settings.options, state.known)
        state = replace(state, chooser=chooser, configurations={method: chooser.by(method)})
        model = with_pairs(state.with_own_model()).model
        put_corrected(model, state.bias_errors)
        return worst(Evaluator(model, state.runs).errors())
