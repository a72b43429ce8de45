"""`tune` chooses formats by layer, as fast as an accuracy target allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from math import isfinite
from typing import Any

from intact import graph
from intact._version import __version__
from intact.engine import compile
from intact.errors import QuantValueError
from intact.graph import Model, PicklableModel
from intact.job_pool import InProcess, JobPool
from intact.placement import Layer
from intact.processes import cached_property
from intact.ptq import keep_if_read_once, open_batches
from intact.ptq.analysis import settings_of
from intact.ptq.data import BatchSplitter, Feeds, inputs_of
from intact.ptq.mixed import BudgetProgram, Selection
from intact.ptq.scope import Settings, names_of_quantized
from intact.spec import is_whole
from intact.tuning.accuracy_score import (
    Agreement,
    ChoiceScorer,
    ParallelScorer,
    Score,
    check_score,
    quantize_choice,
)
from intact.tuning.format_costs import (
    LatencyTable,
    LayerFormat,
    UniformModel,
    formats_of,
    layers_that_matter,
    layers_with_choice,
    neighbours,
    overrides_of,
    program_of,
    quantize_uniformly,
)
from intact.tuning.format_search import TuneSearch, search_formats
from intact.tuning.latency_clock import CachedClock, Clock, EngineClock, identity
from intact.tuning.tune_record import Study, TuneRecord, key_of
from intact.tuning.tune_result import TunedLayer, TuneResult, TuneTrial

LAYERS, TRIALS = 64, 20
AUTO = "auto"
_SIZED = 32  # runs of the data, of which the one of middle size is timed


def tune(
    source: graph.Source,
    data: Any,
    *,
    evaluate: Score | None = None,
    max_drop: float = 1.0,
    formats: Sequence[str] | None = None,
    clock: Clock | None = None,
    threads: int | None = None,
    budget: int = LAYERS,
    trials: int = TRIALS,
    record: Any = None,
    progress: bool = True,
    pool: JobPool | None = None,
    **options: Any,
) -> TuneResult:
    """Choose a format for each layer: as little time as possible, with no more loss than is allowed.

    0. What costs no time is tried first: weights rounded with regard to each other (``rounding``). 1. The
       model is quantized with each format everywhere, and the error of the outputs measured with each layer
       alone so (`intact.analyze`). 2. The time of a run is measured with each layer alone in another
       format, and with pairs of neighbours in float. 3. An integer program gives the choices that are fastest
       for their error. 4. The fastest of them that keeps the metric is searched by halves, each quantized by
       `quantize` and measured; then layers are given back as long as it keeps it. Equal inputs and equal
       latencies give the same answer.

    Args:
        source: A path, the bytes of a file, an `onnx.ModelProto` or an onnx-ir model; never changed.
        data: Calibration data, as for `quantize`.
        evaluate: What the metric of a model is, the larger the better: it gets an `intact.engine.Engine`, the
            float model's first. None: agreement with the float model on calibration data, in percent
            (`intact.tuning.accuracy_score.Agreement`).
        max_drop: How much less than the float model's the metric may be, in its own unit.
        formats: To choose from, beside the one that `activations` asks for; None: see `formats_of`.
        clock: Seconds of a run of an `onnx.ModelProto`; None: in the engine, on one sample of the data.
        threads: Of the engine; None: as many as the process may use.
        budget: At most so many layers have a choice: those with the largest errors.
        trials: Verify at most so many choices.
        record: A file that keeps what was measured, so that an interrupted run goes on: errors, and what a
            metric and a clock say that have a ``key``, a text that tells them from others. None: none.
        progress: Draw progress bars on standard error.
        pool: Counts the data, measures errors and verifies choices in other processes,
            `intact.ray_pool.RayPool` on other machines, with the same answer; times are measured here. `data`
            and `evaluate` are sent there: files that they name must be there, too. None: this process.
        options: All others of `quantize`: ``profile``, ``method``, ``exclude``, ``overrides``, ...;
            ``rounding`` may be "auto", too, and is unless told: on, where the metric is better with it.
    Returns:
        The answer, with its costs; `TuneResult.met` says whether it meets the target.
    Raises:
        QuantValueError: An argument is wrong, the metric is not finite, or no output is real.
        MissingExtraError: SciPy is not installed.
        IntactError: As for `quantize`.
    """
    _check_arguments(max_drop, budget, trials)
    free = options.get("rounding", AUTO) == AUTO
    settings = settings_of(
        options | {"progress": progress, "pool": pool} | ({"rounding": AUTO} if free else {})
    )
    choices = formats_of(settings, formats)
    float_model = graph.load(source)
    data = keep_if_read_once(float_model, data, settings)
    records = TuneRecord(record)
    everywhere = _everywhere(float_model, data, settings, choices)
    used_clock = clock if clock is not None else EngineClock(_sample(float_model, data, settings), threads)
    remembered = CachedClock(used_clock, records.latencies(key_of(used_clock)), records.save)

    def costs(
        settings: Settings, everywhere: Mapping[str, UniformModel], float_score: float | None = None
    ) -> _Verifier:
        base = everywhere[choices[0].name]
        study = records.study(_study(float_model, base, settings))
        table = LatencyTable(everywhere, remembered)
        score = evaluate or Agreement(base.before.runs)
        return _Verifier(
            float_model, data, settings, score, choices, everywhere, study, remembered, table, max_drop,
            threads, budget, float_score,
        )  # fmt: skip

    verify = costs(settings, everywhere)
    if free:
        rounding = replace(settings, rounding=True)
        rounded_models = _everywhere(float_model, data, rounding, choices)
        rounded_verifier = costs(rounding, rounded_models, verify.float_score)
        verify = max(
            verify, rounded_verifier, key=lambda verifier: verifier.everywhere_score
        )  # the first of equals
    ahead = None if pool is None else verify.ahead
    search_result = search_formats(verify.program, verify, trials, ahead, 1 if pool is None else pool.size)
    return _result(verify, search_result, used_clock)


def _everywhere(
    model: Model, data: Any, settings: Settings, choices: Sequence[LayerFormat]
) -> dict[str, UniformModel]:
    """Quantize the model with each format that is not float; return the results by name, the default
    first.
    """
    formats = [layer_format for layer_format in choices if not layer_format.is_float]
    models = {
        layer_format.name: quantize_uniformly(model, data, settings, layer_format) for layer_format in formats
    }
    if not models[formats[0].name].sweep.total:
        raise QuantValueError(
            "model", "no real output", "an output of floats to measure errors by",
            "tune it without the ArgMax or the like at its end",
        )  # fmt: skip
    return models


@dataclass(eq=False)
class _Verifier:
    """Quantizes choices, and measures their metric and time."""

    model: Model
    data: Any
    settings: Settings
    score: Score
    formats: Sequence[LayerFormat]
    everywhere: Mapping[str, UniformModel]
    study: Study
    clock: CachedClock
    table: LatencyTable
    max_drop: float
    threads: int | None
    budget: int
    known_float_score: float | None

    def __post_init__(self) -> None:
        score = self.known_float_score
        self.float_score = self._score("float", self.model) if score is None else score
        self.float_seconds = self.clock(self.model)
        self.least = self.float_score - self.max_drop
        self.trials: dict[Selection, TuneTrial] = {}

    @property
    def base(self) -> UniformModel:
        """The model with the first format everywhere."""
        return self.everywhere[self.formats[0].name]

    @property
    def int8_layers(self) -> frozenset[str]:
        """The names of all layers that are quantized with the first format."""
        return frozenset(
            layer.name for layer in self.base.before.placement.layers if layer.precision == "int8"
        )

    @cached_property
    def everywhere_score(self) -> float:
        """The metric of the first format everywhere."""
        return self._score("everywhere", quantize_choice(self.model, self.data, self.settings, {}))

    @cached_property
    def errors(self) -> dict[str, dict[str, float]]:
        """The errors of the outputs with each layer alone in a format, by format and layer."""
        progress = self.settings.progress
        errors: dict[str, dict[str, float]] = {
            name: self.study.numbers(
                f"errors {name}",
                partial(uniform_model.errors, progress, f"layers in {name}", self.settings.pool),
            )
            for name, uniform_model in self.everywhere.items()
        }
        return errors | {layer_format.name: {} for layer_format in self.formats if layer_format.is_float}

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers that have a choice of formats."""
        ours, offered = self.errors[self.formats[0].name], layers_with_choice(self.base.before)
        chosen_names = layers_that_matter(
            {layer.name: ours.get(layer.name, 0.0) for layer in offered}, self.budget
        )
        return [layer for layer in offered if layer.name in chosen_names]

    @cached_property
    def program(self) -> BudgetProgram:
        """The integer program of this model."""
        ours, choice_names = self.errors[self.formats[0].name], {layer.name for layer in self.layers}
        fixed = sum(error for name, error in ours.items() if name not in choice_names)
        pairs = neighbours(self.base.before, self.layers)
        return program_of(
            self.layers, self.formats, self.errors, self.table, pairs, fixed, self.settings.progress
        )

    def __call__(self, choice: Selection) -> TuneTrial:
        """Measure `choice`, once."""
        if choice not in self.trials:
            model, known_score = self.ahead.results.pop(choice, None) or (self.quantize(choice), None)
            score = self._score(_name(choice), model, known_score) if any(choice) else self.everywhere_score
            seconds = self.clock(model)
            error = self.program.total("error", choice)
            predicted = self.table.reference + self.program.total("seconds", choice)
            self.trials[choice] = TuneTrial(
                self.format_names(choice), error, predicted, seconds, score, score >= self.least
            )
        return self.trials[choice]

    def format_names(self, choice: Selection) -> dict[str, str]:
        return {layer.name: self.formats[f].name for layer, f in zip(self.layers, choice, strict=True) if f}

    def overrides(self, choice: Selection) -> dict[str, Any]:
        """Return the overrides for `quantize`: those of the choice, then those of the user."""
        nodes = {layer.name: layer.nodes for layer in self.layers}
        chosen = {layer.name: self.formats[f] for layer, f in zip(self.layers, choice, strict=True)}
        return overrides_of(nodes, chosen, self.counting) | dict(self.settings.overrides or {})

    @cached_property
    def counting(self) -> set[str]:
        """The nodes whose formats matter: those that read quantized tensors, without fused followers."""
        state = self.base.before
        return names_of_quantized(
            state.targets, {node.name or "": node for node in state.model.graph.all_nodes()}
        )

    @cached_property
    def ahead(self) -> ParallelScorer:
        """The scorer of choices in other processes; without a pool it does nothing."""
        scorer = ChoiceScorer(PicklableModel(self.model), self.data, self.settings, self.score, self.threads)
        key = key_of(self.score)

        def is_known(choice: Selection) -> bool:
            return not any(choice) or bool(key and self.study.knows(f"{key}: {_name(choice)}"))

        return ParallelScorer(self.settings.pool or InProcess(), scorer, self.overrides, is_known)

    def quantize(self, choice: Selection) -> Model:
        """Quantize the model as `choice` says."""
        return quantize_choice(self.model, self.data, self.settings, self.overrides(choice))

    def _score(self, name: str, model: Model, known_score: float | None = None) -> float:
        def measure() -> dict[str, float]:
            if known_score is not None:
                return {"score": known_score}
            return {"score": check_score(self.score(compile(model, threads=self.threads)))}

        key = key_of(self.score)
        return (self.study.numbers(f"{key}: {name}", measure) if key else measure())["score"]


def _name(choice: Selection) -> str:
    """Return the name of a choice in records."""
    return "choice " + ",".join(map(str, choice))


def _check_arguments(max_drop: float, budget: int, trials: int) -> None:
    if not isinstance(max_drop, int | float) or not isfinite(max_drop) or max_drop < 0:
        raise QuantValueError(
            "max_drop", f"{max_drop!r:.60}", "a finite number, 0 at least", "give it in the metric's unit"
        )
    for name, number in (("budget", budget), ("trials", trials)):
        if not is_whole(number) or number < 1:
            raise QuantValueError(
                name, f"{number!r:.60}", "at least 1", "leave it out, or give a positive number"
            )


def _study(model: Model, base: UniformModel, settings: Settings) -> str:
    """Hash everything that errors and scores depend on, except the metric."""
    digest = blake2b(digest_size=16)
    digest.update(f"{__version__} {identity(model)} {replace(settings, progress=False)!r}".encode())
    for sample in base.before.runs:
        digest.update(sample.digest)
    return digest.hexdigest()


def _sample(model: Model, data: Any, settings: Settings) -> Feeds:
    """Return the run of middle size among the first ones of the data."""
    outputs = [value.name or "" for value in model.graph.outputs]
    cutter = BatchSplitter(graph.Session(model, folded=True), outputs, inputs_of(model))
    runs = [feeds for _, feeds in islice(cutter.runs(open_batches(model, data, settings)), _SIZED)]
    if not runs:
        raise QuantValueError("data", "no samples", "one or more", "give samples of the model's later work")
    return sorted(runs, key=lambda feeds: sum(array.nbytes for array in feeds.values()))[len(runs) // 2]


def _result(verify: _Verifier, search_result: TuneSearch, clock: Clock) -> TuneResult:
    program, names = verify.program, [layer_format.name for layer_format in verify.formats]
    layers = tuple(
        TunedLayer(
            layer.name, layer.nodes, dict(zip(names, map(float, program.costs["error"][i]), strict=True)),
            {n: float(s) for n, s in zip(names, program.costs["seconds"][i], strict=True) if isfinite(s)},
            names[search_result.best[i]],
        )
        for i, layer in enumerate(verify.layers)
    )  # fmt: skip
    reference = verify.table.reference
    return TuneResult(
        model=verify.quantize(search_result.best),
        overrides=verify.overrides(search_result.best),
        layers=layers,
        trials=tuple(verify(choice) for choice in search_result.tried),
        best=verify(search_result.best),
        front=tuple(
            (reference + program.total("seconds", choice), program.total("error", choice))
            for choice in search_result.front
        ),
        formats=tuple(names),
        float_score=verify.float_score,
        float_seconds=verify.float_seconds,
        least_score=verify.least,
        settings=_settings_in_words(verify, clock),
    )


_ROUNDED = {
    True: "fitted to the layers' inputs", AUTO: "fitted in layers of few weights", False: "to the nearest",
}  # fmt: skip


def _settings_in_words(verify: _Verifier, clock: Clock) -> dict[str, str]:
    """Describe the settings and what was measured on, for the report."""
    settings = verify.settings
    profile = settings.profile if isinstance(settings.profile, str) else settings.profile.name
    return {
        "profile": profile,
        "method": settings.method,
        "rounding": _ROUNDED[settings.rounding],
        "layers quantized": str(len(verify.int8_layers)),
        "errors measured on": f"{len(verify.base.before.runs)} runs of the calibration data",
        "times measured on": key_of(clock) or "a clock of the caller's",
    }
