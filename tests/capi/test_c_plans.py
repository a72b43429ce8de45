"""The C library runs plan files without Python, with the codes of the engine and of the integer reference."""

from __future__ import annotations

import collections
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.capi.library import CError, CPlan
from tests.engine.conftest import Qdq
from tests.fuzz.check import inputs
from tests.fuzz.graphs import make, read

from intact.engine.compare.c_interface import BAD_ARGUMENT, BAD_INDEX, BAD_SHAPE, NOT_PREPARED, UNSUPPORTED
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.engine.steps import KINDS
from intact.errors import IntactError

LATER: set[str] = set()
"""Kinds of steps that the C library does not run yet; it only ever gets shorter."""

FUSED = {"attention", "norm_and_codes"}
"""Steps that binders see in place of a plan's own."""

CORPUS = sorted((Path(__file__).parents[1] / "fuzz" / "corpus").glob("seed-*.onnx"))


def test_the_library_knows_every_kind_of_step():
    listed = (Path(__file__).parents[2] / "csrc" / "engine" / "kinds.inc").read_text(encoding="utf-8")
    native = {kind for kind, step in KINDS.items() if step.native and kind not in FUSED}
    assert set(re.findall(r"INTACT_KIND\((\w+)\)", listed)) == native - LATER


def save_plan(plan, path, **options):
    """A plan file, and the engine that wrote it."""
    engine = Engine(plan, threads=1, **options)
    engine.save(path)
    return engine


def compare(case, seed, library, path, threads=1):
    """Count the runs that agree bit for bit; the C library refuses what the engine refuses."""
    plan = lower(case.proto)
    engine, rng, runs = save_plan(plan, path), np.random.default_rng([seed, 7]), 0
    opened = CPlan(library, path, threads)
    for sizes in case.sizes:
        for kind in ("random", "high", "low"):
            feeds = inputs(case.proto, sizes, kind, rng)
            try:
                want = engine.run(feeds)
            except IntactError:
                with pytest.raises(CError):
                    opened.run(feeds)
                continue
            got = opened.run(feeds)
            assert {n: (a.shape, a.tobytes()) for n, a in got.items()} == {
                n: (a.shape, a.tobytes()) for n, a in want.items()
            }
            runs += 1
    opened.close()
    return runs


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_kept_graph_has_the_engines_codes(path, c_library, tmp_path):
    case = read(path.read_bytes())
    try:
        compare(case, int(path.stem.removeprefix("seed-")), c_library, tmp_path / "plan")
    except CError as error:
        assert error.status == UNSUPPORTED and ("(onnx)" in str(error) or "lowered again" in str(error)), (
            error
        )


def test_random_graphs_of_many_kinds_have_the_engines_codes(c_library, tmp_path):
    kinds, runs = collections.Counter(), 0
    for seed in range(40):
        case = make(seed)
        try:
            runs += compare(case, seed, c_library, tmp_path / "plan", threads=1 + seed % 2)
        except CError as error:
            assert error.status == UNSUPPORTED and "(onnx)" in str(error), (seed, error)
            continue
        kinds.update({step.kind for step in lower(case.proto).steps})
    assert runs > 200 and len(kinds) > 25


def test_new_sizes_are_prepared_and_old_ones_cost_nothing(c_library, tmp_path):
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, "h", 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 4, strides=[2, 2])))
    plan = lower(net.proto(y))
    engine = save_plan(plan, tmp_path / "plan")
    opened, rng = CPlan(c_library, tmp_path / "plan"), np.random.default_rng(0)
    for n, h in ((1, 8), (3, 8), (2, 11), (1, 8), (0, 8)):
        feeds = {"x": rng.standard_normal((n, 3, h, 8)).astype(np.float32)}
        (got,), (want,) = opened.run(feeds).values(), engine.run(feeds).values()
        np.testing.assert_array_equal(got, want)
        assert opened.workspace > 0
    reference = evaluate(plan, feeds)
    assert all(np.array_equal(opened.run(feeds)[name], reference[name]) for name in plan.outputs)


def test_what_does_not_fit_is_refused_by_name(c_library, tmp_path):
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, 8, 8)))
    save_plan(lower(net.proto(net.pair(net.conv(x, 3, 4)))), tmp_path / "plan")
    opened = CPlan(c_library, tmp_path / "plan")
    with pytest.raises(CError, match="not prepared") as caught:
        opened.call("run", opened._session, None, None)
    assert caught.value.status == NOT_PREPARED
    with pytest.raises(CError, match=r"'x'.*size 4 in dimension 1") as caught:
        opened.prepare([(1, 4, 8, 8)])
    assert caught.value.status == BAD_SHAPE
    opened.prepare([(1, 3, 8, 8)])
    with pytest.raises(CError, match="arrays of all inputs") as caught:
        opened.call("run", opened._session, None, None)
    assert caught.value.status == BAD_ARGUMENT


def test_parts_in_onnx_runtime_are_refused_with_the_names_of_their_nodes(c_library, tmp_path):
    net = Qdq()
    x = net.input("x", (2, 6))
    save_plan(lower(net.proto(net.node("Hardmax", net.pair(x), name="the_node"))), tmp_path / "plan")
    with pytest.raises(CError, match="the_node") as caught:
        CPlan(c_library, tmp_path / "plan")
    assert caught.value.status == UNSUPPORTED


def test_an_index_out_of_range_ends_the_run(c_library, tmp_path):
    net = Qdq()
    index = net.input("index", ("n",), onnx.TensorProto.INT64)
    table = net.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    save_plan(lower(net.proto(net.node("Gather", table, index))), tmp_path / "plan")
    opened = CPlan(c_library, tmp_path / "plan")
    (rows,) = opened.run({"index": np.array([3, -1, 0])}).values()
    np.testing.assert_array_equal(rows[:, 0], [9, 9, 0])
    with pytest.raises(CError, match="gather") as caught:
        opened.run({"index": np.array([1, 4])})
    assert caught.value.status == BAD_INDEX


@pytest.mark.parametrize("threads", [1, 2])
def test_large_batches_run_a_few_images_at_a_time(c_library, tmp_path, threads):
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, 96, 96)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 16)))
    z = net.pair(net.node("Relu", net.conv(y, 16, 16, group=16)))
    y = net.pair(net.node("Relu", net.node("Add", net.conv(z, 16, 16), y)))
    pooled = net.pair(net.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    plan = lower(net.proto(net.pair(net.node("GlobalAveragePool", pooled)), pooled))
    engine = Engine(plan, threads=threads)
    engine.save(tmp_path / "plan")
    opened = CPlan(c_library, tmp_path / "plan", threads)
    for n in (16, 1, 6):
        feeds = {"x": np.random.default_rng(n).standard_normal((n, 3, 96, 96)).astype(np.float32)}
        want, got = engine.run(feeds), opened.run(feeds)
        assert all(np.array_equal(got[name], want[name]) for name in plan.outputs)
        if n == 1:
            alone = opened.workspace
        elif n == 16:
            assert opened.workspace < 16 * 16 * 96 * 96, "not all images of a layer at once"
    assert alone > 0


def test_sessions_of_one_plan_run_at_once(c_library, tmp_path):
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, 24, 24)))
    plan = lower(net.proto(net.pair(net.conv(net.pair(net.node("Relu", net.conv(x, 3, 16))), 16, 8))))
    engine = save_plan(plan, tmp_path / "plan")
    opened = CPlan(c_library, tmp_path / "plan", threads=2)
    feeds = [{"x": net.rng.standard_normal((n, 3, 24, 24)).astype(np.float32)} for n in (1, 2, 3, 4)]
    want = [engine.run(inputs) for inputs in feeds]

    def run(number):
        session = opened.session()
        runs = [session.run(feeds[number]) for _ in range(20)]
        session.close()
        return all(np.array_equal(outputs[name], want[number][name]) for outputs in runs for name in outputs)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))
