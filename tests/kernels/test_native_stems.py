"""A native step has the stem of its kind."""

from __future__ import annotations

from pathlib import Path

from intact.engine.steps import KINDS

ROOT = Path(__file__).parents[2]
SHARED = {
    "attention": "MatMul, Softmax and MatMul in one",
    "cache_write": "the part of an attention to a cache that writes it",
    "copy": "transpose, slice, concat, expand, pad, reshape",
    "depthwise": "convolutions whose groups have one channel each",
    "dynamic_depthwise": "the same of codes with ranges of their own",
    "fill": "the constant parts of pads",
    "float_attention": "FloatMatMul, Softmax and FloatMatMul in one",
    "halo": "the borders of images",
    "winograd": "a 3x3 convolution",
}
"""Native steps that serve several kinds, or one in a special case."""


def stems(suffix: str) -> set[str]:
    return {path.stem for path in (ROOT / "csrc/steps").glob(f"*{suffix}")}


def test_a_native_step_is_named_by_its_kind() -> None:
    assert stems(".cc") == stems(".h")
    assert stems(".cc") - KINDS.keys() == SHARED.keys()
