"""Random graphs that are kept: those that showed a fault, and some of every kind (`make fuzz` makes more).

A case is an ONNX file as `tests.fuzz.run` writes it; the number in its name is the seed of its inputs.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.fuzz.check import Fault, check, inputs
from tests.fuzz.graphs import FEATURES, make, read
from tests.fuzz.run import minimize, outcome_of
from tests.kernel_paths import kernel_paths

from intact.engine.engine import Engine

CORPUS = sorted((Path(__file__).parent / "corpus").glob("seed-*.onnx"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_kept_graph(path):
    findings = check(read(path.read_bytes()), int(path.stem.removeprefix("seed-")))
    assert findings.status in ("ok", "invalid"), findings.message


def test_there_is_a_corpus():
    assert len(CORPUS) > 40
    assert sum(path.stat().st_size for path in CORPUS) < 500_000


def test_a_seed_is_one_graph():
    with np.errstate(all="ignore"):
        a, b = make(1012), make(1012)
        assert a.proto.SerializeToString(deterministic=True) == b.proto.SerializeToString(deterministic=True)
        assert a.sizes == b.sizes
        fewer = make(1012, steps=[0])
    assert len(fewer.proto.graph.node) < len(a.proto.graph.node)
    again = read(a.file_bytes())
    assert (again.sizes, again.tame, again.log) == (a.sizes, a.tame, a.log)


def test_features_can_be_left_out():
    with np.errstate(all="ignore"):
        for seed in range(20):
            case = make(seed, off=FEATURES)
            assert case.tame and all(sizes["n"] for sizes in case.sizes)


def test_every_kernel_of_the_machine_is_chosen_by_some_variant(monkeypatch):
    from intact.kernels.registry import kernel_list, kernels_in_use

    chosen = set()
    for settings in kernel_paths():
        with monkeypatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            chosen.update(kernels_in_use().values())
    assert chosen == {kernel.name for kernel in kernel_list() if kernel.available}


class TestFaultsAreSeen:
    """Faults that a check must find, because a check that cannot fail checks nothing."""

    def test_other_codes(self, monkeypatch):
        run = Engine.run

        def wrong(engine, feeds, out=None):
            result = run(engine, feeds, out)
            return {name: array + np.asarray(array.size > 3, array.dtype) for name, array in result.items()}

        monkeypatch.setattr(Engine, "run", wrong)
        findings = check(read(CORPUS[0].read_bytes()), 0)
        assert findings.status == "fault" and "differ from the reference" in findings.message

    def test_what_is_no_error_of_ours(self, monkeypatch):
        def wrong(engine, feeds):
            raise KeyError("x")

        monkeypatch.setattr(Engine, "tap", wrong)
        status, message, *_ = outcome_of(3)
        assert status == "fault" and "KeyError" in message

    def test_a_reference_that_the_file_contradicts(self, monkeypatch):
        from tests.fuzz import check as module

        evaluate = module.evaluate

        def wrong(plan, feeds):
            result = evaluate(plan, feeds)
            name = next(s.y for s in plan.steps if s.kind == "quantize")
            return {**result, name: np.where(result[name] > 0, result[name] - 2, result[name] + 2)}

        monkeypatch.setattr(module, "evaluate", wrong)
        model = onnx.parser.parse_model("""
            <ir_version: 10, opset_import: ["" : 21]>
            net (float[n, 4] x) => (float[n, 4] y) <float s = {0.05}, int8 z = {3}>
            { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }""")
        case = type(read(CORPUS[0].read_bytes()))(model, ({"n": 2},), True)
        findings = check(case, 0)
        assert findings.status == "fault" and "ONNX Runtime" in findings.message

    def test_inputs_are_of_the_model(self):
        case = read(CORPUS[0].read_bytes())
        feeds = inputs(case.proto, case.sizes[0], "ends", np.random.default_rng(0))
        assert feeds.keys() == {info.name for info in case.proto.graph.input}
        assert issubclass(Fault, Exception) and callable(minimize)
