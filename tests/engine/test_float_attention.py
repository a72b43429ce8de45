"""softmax(q k * gain + mask) v of floats, which the engine runs as one step: the bits of the three."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engine.conftest import assert_same_bits

from intact.engine import Plan
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.kernels import kernel_list

KERNELS = [k.name for k in kernel_list() if k.family in ("float_gemm", "float_steps") and k.available]


def check(plan: Plan, feeds: dict[str, Any], threads: int = 1) -> None:
    """Compare the engine's outputs with those of the reference, bit for bit."""
    values = evaluate(plan, feeds)
    for name, got in Engine(plan, threads=threads).run(feeds).items():
        assert_same_bits(got, values[name], name)


def attention(
    g: Any, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], mask: tuple[int, ...] | None = None
) -> str:
    """Write the nodes of an attention; k is [..., tokens, depth]. Returns the name of its output."""
    order = (*range(len(k) - 2), len(k) - 1, len(k) - 2)
    scores = g.node("MatMul", g.input("q", q), g.node("Transpose", g.input("k", k), perm=order), name="qk")
    if mask is not None:
        scores = g.node("Add", scores, g.input("mask", mask))
    return g.node("MatMul", g.node("Softmax", scores, axis=-1, name="soft"), g.input("v", v), name="pv")


def labels(engine: Engine, feeds: dict[str, Any]) -> set[str]:
    """The names of the steps that an engine runs."""
    shapes = {name: array.shape for name, array in feeds.items()}
    return {label.name for label in engine.prepare(shapes).bound.labels if label}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("rows", "tokens", "depth", "width"),
    [(1, 1, 1, 1), (3, 50, 8, 5), (13, 40, 7, 17), (150, 33, 4, 8), (25, 600, 32, 32)],
)
@pytest.mark.parametrize("masked", [False, True])
def test_it_has_the_bits_of_three_steps(monkeypatch, qdq, kernel, rows, tokens, depth, width, masked):
    monkeypatch.setenv("INTACT_FORCE_KERNEL", kernel)
    g = qdq()
    mask = (2, 1, 1, tokens) if masked else None
    y = attention(g, (2, 3, rows, depth), (2, 3, tokens, depth), (2, 3, tokens, width), mask)
    check(lower(g.proto(y)), g.feeds())


@pytest.mark.parametrize(
    ("q", "k", "v", "mask"),
    [
        ((5, 4), (7, 4), (7, 3), None),
        ((5, 4), (7, 4), (7, 3), (5, 1)),
        ((3, 5, 4), (1, 7, 4), (1, 7, 3), (1, 5, 7)),
        ((1, 5, 4), (3, 7, 4), (3, 7, 3), (3, 1, 7)),
        ((1, 5, 4), (1, 7, 4), (3, 7, 3), (1, 1, 1)),
        ((2, 0, 4), (2, 7, 4), (2, 7, 3), None),
        ((2, 5, 4), (2, 0, 4), (2, 0, 3), None),
        ((2, 5, 0), (2, 7, 0), (2, 7, 3), None),
        ((2, 5, 4), (2, 7, 4), (2, 7, 0), None),
    ],
    ids=str,
)
def test_sizes_that_broadcast_or_are_empty(qdq, q, k, v, mask):
    g = qdq()
    plan, feeds = lower(g.proto(attention(g, q, k, v, mask))), g.feeds()
    check(plan, feeds)
    assert not labels(Engine(plan), feeds) & {"qk", "soft"}


@pytest.mark.parametrize("threads", [1, 2])
def test_heads_are_read_and_written_where_they_lie(qdq, threads):
    """[B, T, H, D] as [B, H, T, D] and back, of free lengths."""
    g = qdq()
    heads = [g.node("Transpose", g.input(n, ["b", "t", 3, 8]), perm=[0, 2, 1, 3]) for n in "qkv"]
    turned = g.node("Transpose", heads[1], perm=[0, 1, 3, 2])
    product = g.node("MatMul", g.node("Softmax", g.node("MatMul", heads[0], turned), axis=-1), heads[2])
    plan = lower(g.proto(g.node("Relu", g.node("Transpose", product, perm=[0, 2, 1, 3]))))
    for b, t in ((1, 130), (3, 9)):
        check(plan, g.feeds({"b": b, "t": t}), threads)


def test_what_is_no_number_stays_in_its_row(qdq):
    g = qdq()
    plan = lower(g.proto(attention(g, (2, 14, 4), (2, 40, 4), (2, 40, 8), (2, 14, 40))))
    feeds = g.feeds()
    feeds["mask"][0, 3, 5] = np.nan
    feeds["mask"][1, 2] = -np.inf
    feeds["q"][1, 7, 1] = np.inf
    check(plan, feeds)


def test_scores_that_are_asked_for_keep_three_steps(qdq):
    g = qdq()
    plan = lower(g.proto(attention(g, (5, 4), (7, 4), (7, 3))))
    (scores,) = (step.y for step in plan.steps if step.name == "qk")
    with_scores, feeds = replace(plan, outputs=(*plan.outputs, scores)), g.feeds()
    assert {"qk", "soft", "pv"} <= labels(Engine(with_scores), feeds)
    check(with_scores, feeds)
