"""Plans of one step, or of a few, on every kernel of this machine, against the reference evaluator.

    check(one_step(Clip("c", (), "x", "y", 0.0, 6.0), {"x": x}))

Arrays lie among guard bytes: dense, or with their axes in another order, backwards and with gaps. The step
reads and writes them where they lie, or between steps that let it have images or a part of a concatenation.
Where tensors are small, one run is a checked one (csrc/runtime/checked.h), which compares what the step
touches with what it declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.kernel_paths import environment, kernel_paths

from intact.engine.cpu.bound_plan import Bound, PreparedPlan
from intact.engine.cpu.execute import execute
from intact.engine.cpu.fallback import FallbackSessions
from intact.engine.kernel_choices import FormChooser, FormTrial
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.steps import Codes, Concat, Dim, Pool, Step, Tensor
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.wiring import reads, writes
from intact.kernels import ThreadPool

GUARD = 0xA5
_MARGIN = 64
_MOST_CHECKED = 100_000
"""Elements of all tensors: checked runs look at each by itself."""
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """A plan, its inputs, and every tensor that the reference makes of them."""

    plan: Plan
    feeds: Arrays
    want: Arrays


def one_step(steps: Step | Sequence[Step], feeds: Arrays, **options: Any) -> Case:
    """Make a plan as `plan_of` does, and evaluate it."""
    plan = plan_of(steps, feeds, **options)
    return Case(plan, feeds, evaluate(plan, feeds))


def plan_of(
    steps: Step | Sequence[Step],
    feeds: Arrays,
    *,
    grids: Mapping[str, Codes] | None = None,
    dtypes: Mapping[str, str] | None = None,
    shapes: Mapping[str, tuple[Dim, ...]] | None = None,
    **constants: NDArray[Any],
) -> Plan:
    """Make a plan of a step, or of a few in order.

    Args:
        steps: What nobody reads of what they make are the plan's outputs.
        feeds: The inputs by name, codes where they have a grid.
        grids: Of tensors of codes, by name.
        dtypes: Of what steps make, where it is neither codes nor float32.
        shapes: Of what steps make, where the plan says it and not the step.
        constants: By name.
    """
    steps = (steps,) if isinstance(steps, Step) else tuple(steps)
    grids, dtypes, shapes = grids or {}, dtypes or {}, shapes or {}
    tensors: dict[str, Tensor] = {}
    sizes = Sizes(tensors, lambda name: constants[name].shape)

    def add(name: str, shape: tuple[Dim, ...], dtype: str) -> None:
        grid = grids.get(name)
        tensors[name] = Tensor(name, "codes" if grid else dtype, shape, grid)

    for name, array in feeds.items():
        add(name, array.shape, array.dtype.name)
        sizes.bind(name, array.shape)
    for step in steps:
        for name in writes(step):
            add(name, shapes.get(name, ()), dtypes.get(name, "float32"))
        for name, shape in zip(writes(step), step.output_shapes(sizes), strict=True):
            add(name, shapes.get(name, shape), dtypes.get(name, "float32"))
            sizes.bind(name, shape)
    read = {name for step in steps for name in reads(step)}
    outputs = tuple(name for step in steps for name in writes(step) if name not in read)
    return Plan(steps, tensors, constants, tuple(feeds), outputs)


def check(case: Case, *, seed: int = 0, threads: Sequence[int] = (1, 3, 2), moves: bool = True) -> None:
    """Compare every run of a case with the reference, bit for bit; NaNs are one another's equals.

    Args:
        case: The case.
        seed: Of the layouts of arrays.
        threads: How many threads run the paths in turn.
        moves: Whether arrays lie in other orders and steps stand around, too: not for what is large.
    """
    rng, turns = np.random.default_rng([seed, 11]), cycle(threads)
    around = [case, *(neighbours(case, rng) if moves else ())]
    pools = {n: ThreadPool(n) for n in threads}
    prepared = [_prepare(variant) for variant in around]
    for number, path in enumerate(kernel_paths()):
        with environment(**path):
            for variant, plan in zip(around, prepared, strict=True):
                where = f"{path or 'default'}: {[step.kind for step in variant.plan.steps]}"
                _run_forms(variant, plan, pools[next(turns)], None, where)
            if moves:
                _run_forms(case, prepared[0], pools[next(turns)], rng, f"{path or 'default'}, strides")
            if number == 0 and sum(array.size for array in case.want.values()) <= _MOST_CHECKED:
                with environment(INTACT_CHECK="1"):
                    for variant, plan in zip(around, prepared, strict=True):
                        _run(variant, plan, pools[threads[0]], rng if moves else None, "a checked run")


def forms(case: Case, trial: str = "", **settings: str) -> set[str]:
    """Return the forms of the case's layers, under settings of the environment.

    Args:
        case: The case.
        trial: The form that a layer takes which has it; "": as the cost model says.
        settings: Variables.
    """
    prepared = _prepare(case)
    if trial:
        prepared.host.chooser = FormTrial(trial, {})
    with environment(**settings):
        bound = prepared.bind({n: a.shape for n, a in case.feeds.items()}, ThreadPool(1), {})
        return {choice.form for choice in bound.choices.values()}


def neighbours(case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """The case between steps that move nothing: with images, and with an output that is a part of another."""
    plan = case.plan
    images = [n for n in plan.inputs if _is_image(plan.tensors[n], case.feeds[n])]
    ends = [n for n in plan.outputs if _is_image(plan.tensors[n], case.want[n])]
    if images or ends:
        yield _between_pools(case, images, ends)
    (last,) = plan.outputs if len(plan.outputs) == 1 else ("",)
    if last and plan.tensors[last].shape and plan.tensors[last].dtype != "bool":
        yield _within_a_concatenation(case, last, int(rng.integers(len(plan.tensors[last].shape))))


def _is_image(tensor: Tensor, array: NDArray[Any]) -> bool:
    return array.ndim == 4 and array.size > 0 and (tensor.codes is not None or tensor.dtype == "float32")


def _between_pools(case: Case, images: Sequence[str], ends: Sequence[str]) -> Case:
    plan, tensors = case.plan, dict(case.plan.tensors)
    feeds, want = dict(case.feeds), dict(case.want)

    def pool(x: str, y: str) -> Step:
        return Pool(f"pool of {x}", (), x, y, "max", (1, 1))

    before, behind = [], []
    for name in images:
        tensors[f"{name}!"] = replace(tensors[name], name=f"{name}!")
        before.append(pool(f"{name}!", name))
        feeds[f"{name}!"] = feeds.pop(name)
    for name in ends:
        tensors[f"{name}!"] = replace(tensors[name], name=f"{name}!")
        behind.append(pool(name, f"{name}!"))
        want[f"{name}!"] = want[name]
    outputs = tuple(f"{name}!" if name in ends else name for name in plan.outputs)
    steps = (*before, *plan.steps, *behind)
    return Case(Plan(steps, tensors, plan.constants, tuple(feeds), outputs), feeds, want)


def _within_a_concatenation(case: Case, last: str, axis: int) -> Case:
    plan, array = case.plan, case.want[last]
    shape = [size * (1 + (i == axis)) for i, size in enumerate(array.shape)]
    tensors = dict(plan.tensors)
    tensors["beside"] = replace(tensors[last], name="beside", shape=array.shape)
    tensors["whole"] = replace(tensors[last], name="whole", shape=tuple(shape))
    beside = array[tuple(slice(None, None, -1) for _ in shape)].copy()
    feeds = {**case.feeds, "beside": beside}
    concat = Concat("whole", (), (last, "beside"), "whole", axis)
    want = {"whole": np.concatenate([array, beside], axis)}
    steps = (*plan.steps, concat)
    return Case(Plan(steps, tensors, plan.constants, tuple(feeds), ("whole",)), feeds, want)


class Guarded:
    """An array within guard bytes.

    Args:
        shape, dtype: Of the array.
        rng: Chooses the order of axes, their directions and gaps between them; None: dense.

    Attributes:
        array: The array.
        buffer, first: All bytes, and where element 0 of the memory begins among them.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator | None = None
    ) -> None:
        axes = list(range(len(shape))) if rng is None else rng.permutation(len(shape)).tolist()
        strides, step = [0] * len(shape), dtype.itemsize
        for axis in reversed(axes):
            strides[axis] = step
            step *= max(shape[axis], 1)
            step += 0 if rng is None else int(rng.choice([0, 0, 1, 3])) * dtype.itemsize
        self.first = _MARGIN + (0 if rng is None else int(rng.integers(4))) * dtype.itemsize
        behind = _MARGIN if rng is None else int(rng.choice([0, _MARGIN]))  # a sanitizer sees the end
        self.buffer = np.full(self.first + step + behind, GUARD, np.uint8)
        self._layout = shape, tuple(strides)
        turned = [rng is not None and rng.random() < 0.15 for _ in shape]
        view = np.ndarray(shape, dtype, self.buffer, self.first, strides)
        self.array: NDArray[Any] = view[(..., *(slice(None, None, -1 if turn else 1) for turn in turned))]

    def is_intact(self) -> bool:
        """Return whether all bytes outside of the array are still guard bytes."""
        shape, strides = self._layout
        rest = self.buffer.copy()
        np.ndarray((*shape, self.array.itemsize), np.uint8, rest, self.first, (*strides, 1)).fill(GUARD)
        return bool((rest == GUARD).all())


def _prepare(case: Case) -> PreparedPlan:
    return PreparedPlan(case.plan, FallbackSessions(case.plan, 1))


def _run_forms(
    case: Case, prepared: PreparedPlan, pool: ThreadPool, rng: np.random.Generator | None, where: str
) -> None:
    """Run the default form of each layer, then every other."""
    bound = _run(case, prepared, pool, rng, where)
    choices = bound.choices.values()
    for form in sorted({form for choice in choices for form in choice.forms if form != choice.form}):
        prepared.host.chooser = FormTrial(form, {})
        try:
            _run(case, prepared, pool, rng, f"{where}, {form}")
        finally:
            prepared.host.chooser = FormChooser()


def _run(
    case: Case, prepared: PreparedPlan, pool: ThreadPool, rng: np.random.Generator | None, where: str
) -> Bound:
    plan = case.plan
    inputs = {name: Guarded(a.shape, a.dtype, rng) for name, a in case.feeds.items()}
    wanted = {name: case.want[name] for name in plan.outputs}
    outputs = {name: Guarded(a.shape, a.dtype, rng) for name, a in wanted.items()}
    for name, guarded in inputs.items():
        guarded.array[...] = case.feeds[name]
    places = {name: guarded.array for name, guarded in {**inputs, **outputs}.items()}
    strides = {name: array.strides for name, array in places.items() if not array.flags.c_contiguous}
    bound = prepared.bind({name: a.shape for name, a in case.feeds.items()}, pool, strides)
    context = bound.program.take()
    try:
        execute(
            plan, bound, FallbackSessions(plan, 1), {n: g.array for n, g in inputs.items()},
            {n: g.array for n, g in outputs.items()}, context,
        )  # fmt: skip
    finally:
        bound.program.give_back(context)
    where = f"{where}, {pool.threads} threads, strides {strides}"
    for name, guarded in inputs.items():
        assert_same_bits(guarded.array, case.feeds[name], f"{where}: input '{name}' was written")
    for name, guarded in {**inputs, **outputs}.items():
        assert guarded.is_intact(), f"{where}: bytes around '{name}' were written"
    for name, want in wanted.items():
        assert_same_bits(outputs[name].array, want, f"{where}: '{name}'")
    return bound


def assert_same_bits(got: NDArray[Any], want: NDArray[Any], where: str = "") -> None:
    """Compare shape, dtype and every bit, the sign of zero included; a NaN equals a NaN."""
    assert got.shape == want.shape and got.dtype == want.dtype, where
    bits = np.dtype(f"u{want.dtype.itemsize}")
    got_bits, want_bits = (np.ascontiguousarray(a).view(bits) for a in (got, want))
    differ = got_bits != want_bits
    if want.dtype.kind == "f":
        differ &= ~(np.isnan(got) & np.isnan(want)).reshape(differ.shape)
    count = int(np.count_nonzero(differ))
    if count:
        first = tuple(int(i[0]) for i in np.nonzero(differ.reshape(want.shape)))
        message = f"{count} of {want.size} differ, first {first}: {got[first]}, want {want[first]}"
        raise AssertionError(f"{where}: {message}")
