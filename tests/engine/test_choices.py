"""Forms of layers: chosen by figures, the same choice from the same figures, the same bits from any choice.

Nothing here looks at a clock: a stopwatch of the test says what each form takes.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.engine.conftest import Qdq

import intact
from intact.engine.cpu import measure
from intact.engine.engine import Engine
from intact.engine.files import plan_files as files
from intact.engine.kernel_choices import FormChooser, FormTrial, name_of
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.kernels.registry import machine
from intact.timings import Timings

DIRECT, TILED = "gemm_ref", "winograd_ref"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """The kernels that every machine has: a direct form, and Winograd's."""
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    monkeypatch.delenv("INTACT_FORCE_KERNEL", raising=False)


class Told:
    """A stopwatch that says what it was told, by form; each look at the time takes `step` seconds."""

    def __init__(self, seconds, step=0.0):
        self.seconds_of_form, self.step, self.time, self.readings = seconds, step, 0.0, 0

    def now(self):
        self.time += self.step
        return self.time

    def seconds(self, bound, run):
        self.readings += 1
        run()
        each = np.ones(len(bound.labels))
        for index, choice in bound.choices.items():
            each[index] = self.seconds_of_form[choice.form]
        return each


@pytest.fixture(scope="module")
def plan():
    """Three layers whose form may be Winograd's, and one of 1x1. The first two are alike; the third writes an
    image that has no halo."""
    net = Qdq()
    x = net.pair(net.input("x", (1, 32, 8, 8)))
    for _ in range(3):
        x = net.pair(net.conv(x, 32, 32))
    return lower(net.proto(net.pair(net.conv(x, 32, 8, kernel=1))))


def tune_engine(plan, seconds, timings=None, **more):
    engine = Engine(plan, threads=1, timings=timings)
    engine.backend.stopwatch = Told(seconds, **more)
    engine.tune(1.0)
    return engine


def forms(engine):
    return [(choice.form, choice.by) for _, choice in engine.choices()]


def test_without_figures_the_cost_model_decides(plan):
    assert {by for _, by in forms(Engine(plan, threads=1))} == {"model"}


@pytest.mark.parametrize("fast", [DIRECT, TILED])
def test_the_fastest_form_runs_and_gives_the_same_bits(plan, fast):
    engine = tune_engine(plan, {DIRECT: 2.0, TILED: 2.0} | {fast: 1.0})
    chosen = [form for form, _ in forms(engine)]
    assert chosen == [fast, fast, fast, DIRECT]
    x = np.random.default_rng(3).standard_normal((1, 32, 8, 8)).astype(np.float32)
    outputs, wanted = engine.run({"x": x}), evaluate(plan, {"x": x})
    for name in plan.outputs:
        np.testing.assert_array_equal(outputs[name], wanted[name])
    stored = {form.partition(".")[0] for _, form in engine.packed_weights}
    assert (TILED in stored) == (fast == TILED), "only what runs is kept packed"


def test_a_gain_as_small_as_noise_changes_nothing():
    seconds = {name_of("layer", "a"): 1.0, name_of("layer", "b"): 0.98}
    assert FormChooser(seconds).choose("layer", ["a", "b"], "a").form == "a"
    seconds[name_of("layer", "b")] = 0.9
    assert FormChooser(seconds).choose("layer", ["a", "b"], "a").form == "b"
    assert FormChooser(seconds).choose("other", ["a", "b"], "a").by == "model"


@pytest.mark.parametrize("missing", ["a", "b"])
def test_half_of_the_figures_is_none(missing):
    seconds = {name_of("layer", form): 1.0 for form in "ab" if form != missing}
    choice = FormChooser(seconds).choose("layer", ["a", "b"], "a")
    assert (choice.form, choice.by) == ("a", "model")


def test_a_trial_leaves_alone_what_is_known():
    seconds = {name_of("layer", "a"): 1.0, name_of("layer", "b"): 2.0}
    trial = FormTrial("b", seconds)
    assert trial.choose("layer", ["a", "b"], "a").form == "a"
    assert trial.choose("other", ["a", "b"], "a").form == "b"
    assert trial.choose("other", ["a"], "a").form == "a"


def test_layers_that_are_alike_share_a_figure_for_each_form(plan):
    engine = tune_engine(plan, {DIRECT: 2.0, TILED: 1.0})
    table = engine.backend.timings.of(machine())
    assert sorted(table.values()) == [1.0, 1.0, 2.0, 2.0], "two are alike, and the last has one form"
    assert forms(engine)[:3] == [(TILED, "measured")] * 3


def test_a_budget_ends_the_turns(plan):
    runs = measure.LEAST * measure.COUNTED * 2
    assert tune_engine(plan, {DIRECT: 2.0, TILED: 1.0}, step=2.0).backend.stopwatch.readings == runs
    assert tune_engine(plan, {DIRECT: 2.0, TILED: 1.0}, step=0.1).backend.stopwatch.readings > runs


def test_a_cache_gives_the_same_choice_and_nothing_is_timed_again(plan, tmp_path):
    cache = tune_engine(plan, {DIRECT: 1.0, TILED: 3.0}).backend.timings
    cache.save(tmp_path / "times.json")
    again = intact.compile(plan, threads=1, timing_cache=tmp_path / "times.json")
    assert forms(again)[:3] == [(DIRECT, "cache")] * 3
    other = tune_engine(plan, {DIRECT: 9.0, TILED: 1.0}, Timings.load(tmp_path / "times.json"))
    assert other.backend.stopwatch.readings == 0 and forms(other)[:3] == [(DIRECT, "cache")] * 3


def test_figures_are_for_a_machine_a_limit_and_a_number_of_threads(plan, monkeypatch):
    cache = tune_engine(plan, {DIRECT: 3.0, TILED: 1.0}).backend.timings
    assert {by for _, by in forms(Engine(plan, threads=2, timings=cache))} == {"model"}
    (table,) = cache.machines.values()
    elsewhere = Timings({"another machine": table})
    assert {by for _, by in forms(Engine(plan, threads=1, timings=elsewhere))} == {"model"}
    before = machine()
    monkeypatch.delenv("INTACT_MAX_ISA")
    monkeypatch.setattr("intact.kernels.registry.cpu_features", lambda: {"imagined": True})
    assert machine() != before


def test_a_plan_file_keeps_the_choice(plan, tmp_path):
    path = tmp_path / "net.plan"
    engine = tune_engine(plan, {DIRECT: 1.0, TILED: 3.0})
    engine.save(path)
    loaded = intact.load(path, threads=1)
    assert forms(loaded)[:3] == [(DIRECT, "cache")] * 3
    loaded.save(tmp_path / "again.plan")
    assert (tmp_path / "again.plan").read_bytes() == path.read_bytes()
    assert files.load(path).timings.machines == engine.backend.used().machines


def test_a_plan_holds_the_figures_of_its_own_layers_alone(plan, tmp_path):
    cache = tune_engine(plan, {DIRECT: 1.0, TILED: 3.0}).backend.timings
    cache.of(machine())["another layer: gemm_ref"] = 1.0
    engine = Engine(plan, threads=1, timings=cache)
    engine.save(tmp_path / "net.plan")
    (table,) = files.load(tmp_path / "net.plan").timings.machines.values()
    assert len(table) == 4


def test_compile_measures_when_it_is_asked_to_and_writes_the_cache(plan, tmp_path):
    path = tmp_path / "times.json"
    engine = intact.compile(plan, threads=1, tune_seconds=0.01, timing_cache=path)
    written = Timings.load(path).of(machine())
    assert len(written) == 4 and all(seconds > 0 for seconds in written.values())
    assert {by for form, by in forms(engine)[:3]} == {"measured"}
    assert not Engine(plan, threads=1).backend.timings


def test_a_backend_of_one_form_says_so(plan):
    with pytest.raises(UnsupportedError, match="one form of every layer"):
        Engine(plan, backend="reference").tune()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_budget_is_a_number_of_seconds(plan, seconds):
    with pytest.raises(QuantValueError, match="seconds"):
        Engine(plan, threads=1).tune(seconds)


HOSTILE = {
    "nothing": "",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "another format": '{"format": "x", "version": 1, "machines": {}}',
    "another version": '{"format": "intact-timings", "version": 2, "machines": {}}',
    "no machines": '{"format": "intact-timings", "version": 1}',
    "a list": '{"format": "intact-timings", "version": 1, "machines": {"m": []}}',
    "a word": '{"format": "intact-timings", "version": 1, "machines": {"m": {"n": "1"}}}',
    "a truth": '{"format": "intact-timings", "version": 1, "machines": {"m": {"n": true}}}',
    "a negative": '{"format": "intact-timings", "version": 1, "machines": {"m": {"n": -1}}}',
    "no number": '{"format": "intact-timings", "version": 1, "machines": {"m": {"n": NaN}}}',
    "endless": '{"format": "intact-timings", "version": 1, "machines": {"m": {"n": 1e999}}}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_cache_is_refused(plan, text, tmp_path):
    path = tmp_path / "times.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"times\.json"):
        intact.compile(plan, timing_cache=path)


def test_timings_come_back_as_they_went_and_merge():
    timings = Timings({"m": {"a": 1.0, "b": 2.0}, "empty": {}})
    assert Timings.parse(timings.serialize()).machines == {"m": {"a": 1.0, "b": 2.0}}
    timings.add(Timings({"m": {"a": 9.0, "c": 3.0}, "n": {"d": 4.0}}))
    assert timings.machines["m"] == {"a": 1.0, "b": 2.0, "c": 3.0} and timings.machines["n"] == {"d": 4.0}
    assert json.loads(timings.serialize())["version"] == 2


def test_a_profile_says_by_what_forms_were_chosen(plan):
    profile = tune_engine(plan, {DIRECT: 1.0, TILED: 3.0}).profile(runs=1)
    sources = [timing.chosen_by for timing in profile.timings if timing.kind == "conv"]
    assert sources == ["measured"] * 3 + ["model"] and "measured" in str(profile)


def test_a_form_that_is_not_proved_is_no_form():
    """Sums beyond Winograd's range: his form is tried for the layer, refused, and not counted."""
    net = Qdq()
    x = net.pair(net.input("x", (1, 128, 8, 8)), 0.05, 0, "uint8")
    heavy = net.node("DequantizeLinear", net.constant(np.full((32, 128, 3, 3), 127, np.int8)),
                     net.constant(np.float32(0.001)))  # fmt: skip
    y = net.node("Conv", x, heavy, net.floats(32), pads=[1] * 4)
    plan = lower(net.proto(net.pair(y)))
    engine = tune_engine(plan, {DIRECT: 2.0, TILED: 1.0})
    assert forms(engine) == [(DIRECT, "model")] and not engine.backend.timings
