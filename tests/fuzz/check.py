"""Checks of a random graph: the engine is the reference in every bit, and the file agrees with both.

For every kernel that the machine has, one or two of 1 to 4 threads, several sets of inputs and several batch
sizes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper
from tests.fuzz.agree import disagreement
from tests.fuzz.float_blocks import with_float_blocks
from tests.fuzz.graphs import Case
from tests.kernel_paths import environment, kernel_paths

from intact.engine.build import load
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.plan import Plan
from intact.engine.reference import evaluate
from intact.engine.specialize import Plans
from intact.engine.steps.base.wiring import reads, writes
from intact.errors import IntactError
from intact.kernels.registry import kernel_list

Arrays = Mapping[str, NDArray[Any]]
THREADS = (1, 2, 3, 4)
KINDS = ("random", "low", "high", "ends", "zeros", "flat")
FAR = 1e4
"""Inputs that saturate every grid of a tame graph, and stay finite in what comes before it."""


KNOWN = (
    "at least one value in every window", "a window no larger than the padded input", "want scales above 0",
    "could not be broadcast together with shapes (0,",
)  # fmt: skip
"""Refusals that stand: windows over nothing but padding, and over images without pixels (N27); scales that
are no number; sizes that contradict each other, which ONNX Runtime does not see where nothing is computed."""


class Fault(Exception):
    """Something that must hold does not."""


@dataclass
class Outcome:
    """Result of a case.

    Attributes:
        status: "ok"; "invalid": ONNX Runtime refuses the model; "refused": it does not, and we do; "fault".
        message: Why.
        runs: How many times an engine ran.
        compared: How many tensors of codes were compared with ONNX Runtime's, from the same codes before.
        kinds: Of the plan's steps.
    """

    status: str = "ok"
    message: str = ""
    runs: int = 0
    compared: int = 0
    kinds: frozenset[str] = field(default=frozenset())


def mix(rng: np.random.Generator) -> dict[str, str]:
    """A kernel by chance in every family."""
    here = [(k.family, k.name) for k in kernel_list() if k.available]
    picked = dict(here[i] for i in rng.permutation(len(here)))
    return {"INTACT_FORCE_KERNEL": ",".join(picked.values())}


def check(case: Case, seed: int) -> Outcome:
    """Hold a case against all that is promised.

    Args:
        case: The graph.
        seed: Of its inputs.
    """
    outcome, rng = Outcome(), np.random.default_rng([seed, 7])
    try:
        session = _session(case.proto)
    except Exception as error:
        session, outcome.message = None, str(error)
    try:
        with np.errstate(all="ignore"):
            _check(case, session, rng, outcome)
    except IntactError as error:
        outcome.status = "refused" if session is not None else "invalid"
        outcome.message = f"{type(error).__name__}: {error}"
    except Fault as error:
        outcome.status, outcome.message = "fault", str(error)
    else:
        outcome.status = "ok" if session is not None else "invalid"
    return outcome


def _session(proto: onnx.ModelProto) -> ort.InferenceSession:
    """The file as it is written, with all codes and what they are made of put out."""
    model = with_float_blocks(onnx.ModelProto.FromString(proto.SerializeToString()))
    names = {name for node in model.graph.node for name in node.output}
    shown = {value.name for value in model.graph.output}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            for name in (node.input[0], node.output[0]):
                if name in names and name not in shown:
                    model.graph.output.append(onnx.ValueInfoProto(name=name))
                    shown.add(name)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _check(
    case: Case, session: ort.InferenceSession | None, rng: np.random.Generator, outcome: Outcome
) -> None:
    plan = lower(case.proto)
    outcome.kinds = frozenset(step.kind for step in plan.steps)
    outside, plans = _outside(plan), Plans(plan)
    result, refusals = [], []
    for index, sizes in enumerate(case.sizes):
        for kind in (*KINDS[:3], rng.choice(KINDS[3:])) if index == 0 else (rng.choice(KINDS),):
            feeds = inputs(case.proto, sizes, str(kind), rng)
            try:
                at = plans.at({name: array.shape for name, array in feeds.items()}, plans.deciding(feeds))
                outside |= _outside(at)
                result.append((feeds, evaluate(at, feeds)))
            except IntactError as error:
                refusals.append((feeds, error))
                continue
            if session is not None and case.tame:
                outcome.compared += _agrees(case.proto, at, session, *result[-1], outside)
    _run_all(plans, result, refusals, outside, rng, outcome)
    for feeds, error in refusals:
        nothing = not all(
            array.size for array in feeds.values()
        )  # ONNX Runtime's fallback parts: other sizes
        strange = ("NaN" in str(error) and not case.tame) or any(words in str(error) for words in KNOWN)
        if session is not None and _runs(session, feeds) and not strange and not (nothing and outside):
            raise error


def _outside(plan: Plan) -> set[str]:
    """Tensors that depend on what ONNX Runtime computes: its last bits differ from one run to the next."""
    tainted: set[str] = set()
    for step in plan.steps:
        if not step.native or tainted.intersection(reads(step)):
            tainted.update(writes(step))
    return tainted


def inputs(
    proto: onnx.ModelProto, sizes: Mapping[str, int], kind: str, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """One array for each input of a model."""
    result = {}
    for info in proto.graph.input:
        shape = [sizes.get(d.dim_param, d.dim_value) for d in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        result[info.name] = _array(shape, dtype, kind, rng)
    return result


def _array(shape: list[int], dtype: np.dtype, kind: str, rng: np.random.Generator) -> NDArray[Any]:
    real = dtype.kind == "f"
    low, high = (-FAR, FAR) if real else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if kind == "random" and real:
        return np.asarray(rng.standard_normal(shape) * 3, dtype)
    if kind == "random":
        return rng.integers(low, high + 1, shape, dtype)
    if kind == "ends":
        return np.where(rng.random(shape) < 0.5, low, high).astype(dtype)
    flat = {
        "low": low,
        "high": high,
        "zeros": 0,
        "flat": rng.uniform(-5, 5) if real else rng.integers(low, high + 1),
    }
    return np.full(shape, flat[kind], dtype)


def _runs(session: ort.InferenceSession, feeds: Arrays) -> bool:
    try:
        session.run(None, dict(feeds))
    except Exception:  # ONNX Runtime's exceptions have no common public base
        return False
    return True


def _agrees(
    proto: onnx.ModelProto,
    plan: Plan,
    session: ort.InferenceSession,
    feeds: Arrays,
    values: Arrays,
    outside: set[str],
) -> int:
    """Hold the reference against the file in ONNX Runtime; how many tensors were compared."""
    names = [output.name for output in session.get_outputs()]
    try:
        result = session.run(names, dict(feeds))
    except Exception:
        return 0  # it cannot run the file on these sizes
    compared, message = disagreement(proto, plan, dict(zip(names, result, strict=True)), values, outside)
    if message:
        raise Fault(f"ONNX Runtime: {message}")
    return compared


Found = list[tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]]


def _run_all(
    plans: Plans,
    result: Found,
    refusals: list[Any],
    outside: set[str],
    rng: np.random.Generator,
    outcome: Outcome,
) -> None:
    """Every kernel with one or two numbers of threads: of one all tensors; all sets by default."""
    packed: dict[Any, Any] = {}
    turn, whole = int(rng.integers(len(KINDS))), int(rng.choice(THREADS))
    for settings in (*kernel_paths(), mix(rng)):
        with environment(**settings):
            for threads in sorted({whole, int(rng.choice(THREADS))}):
                where = f"{settings or 'default'} threads={threads}"
                engine = Engine(plans.plan, threads=threads, packed=packed)
                engine._plans = plans  # lowered once for all kernels
                every = (
                    result if not settings and threads == whole else result[turn % max(len(result), 1) :][:1]
                )
                for feeds, values in every:
                    _same(_call(engine.run, feeds, where), values, outside, where)
                if threads == whole:
                    for feeds, values in result[(turn + 1) % max(len(result), 1) :][:1]:
                        _same(_call(engine.tap, feeds, where), values, outside, where)
                    for feeds, _ in refusals:
                        _refuses(engine, feeds)
                turn += 1
                outcome.runs += len(every) + (threads == whole)
    if result:
        _store(plans.plan, result, outside, outcome)


def _call(run: Any, feeds: Arrays, where: str) -> Arrays:
    try:
        return run(feeds)
    except IntactError as error:
        raise Fault(
            f"{where}: the reference runs it, the engine says {type(error).__name__}: {error}"
        ) from error


def _refuses(engine: Engine, feeds: Arrays) -> None:
    """Return whether the engine refuses what the reference refuses, or runs it (a NaN).

    It does nothing else.
    """
    try:
        engine.run(feeds)
    except IntactError:
        return


def _store(plan: Plan, result: Found, outside: set[str], outcome: Outcome) -> None:
    """A plan that went through a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "it.intact"
        feeds, values = result[0]
        engine = Engine(plan, threads=1)
        if len(result) % 2:
            engine.run(feeds)
        engine.save(path)
        try:
            again = load(path, threads=2)
        except IntactError as error:
            raise Fault(f"a saved plan is not loaded: {error}") from error
        for feeds, values in (result[0], result[-1]):
            _same(_call(again.run, feeds, "loaded"), values, outside, "loaded")
            outcome.runs += 1


def _same(got: Arrays, want: Arrays, outside: set[str], where: str) -> None:
    for name, array in got.items():
        expected = want[name]
        if array.dtype != expected.dtype or array.shape != expected.shape:
            raise Fault(
                f"{where}: '{name}' is {array.dtype} {array.shape}, want {expected.dtype} {expected.shape}"
            )
        if name not in outside and (count := _differing(array, expected)):
            raise Fault(f"{where}: '{name}': {count} of {array.size} differ from the reference")


def _differing(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Elements with other bits; of NaNs, that they are one."""
    if np.array_equal(a, b) and a.dtype.kind != "f":
        return 0
    unlike = np.frombuffer(a.tobytes(), np.uint8) != np.frombuffer(b.tobytes(), np.uint8)
    wrong = unlike.reshape(*a.shape, a.itemsize).any(axis=-1)
    if a.dtype.kind == "f":
        wrong &= ~(np.isnan(a) & np.isnan(b))
    return int(np.count_nonzero(wrong))
