"""Fuse neighbouring steps before binding. The plan itself, and every bit, stay as they are.

attention         matmul, softmax, matmul: the scores and what becomes of them stay in the cache
norm_and_codes    layer_norm, quantize (or a product by a constant of each channel that makes codes)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated

from intact.engine.plan import Plan
from intact.engine.shapes import peek
from intact.engine.steps import Binary, LayerNorm, MatMul, Quantize, Softmax, Step, Tensor, Traits
from intact.engine.steps.base.wiring import Operand, Read, Reads, Write, Writes, reads, writes


@dataclass(frozen=True)
class Attention(Step):
    """``softmax(a b) v``.

    Attributes:
        a, b, xs, mask, y: What it reads (`xs` holds v alone) and writes.
        scores, softmax, product: The steps of the plan.
        middle: The tensors that `scores` and `softmax` make.
    """

    kind = "attention"
    traits = Traits(strided=True)
    a: Read
    b: Read
    xs: Annotated[tuple[str], Reads()]
    mask: Operand
    y: Write
    scores: MatMul
    softmax: Softmax
    product: MatMul
    middle: tuple[Tensor, Tensor]

    @property
    def label(self) -> Step:
        """The step of the plan that its time belongs to."""
        return self.product

    @property
    def intermediate_tensors(self) -> tuple[str, ...]:
        """What steps that it replaces make."""
        return self.scores.y, self.softmax.y


@dataclass(frozen=True)
class NormAndCodes(Step):
    """A LayerNorm whose floats are read, and quantized for others.

    Attributes:
        x, residual, ys: What it reads, and writes: floats and codes.
        norm, quantize: The steps of the plan; in place of a Quantize may stand a product by `factors`.
        factors: Constant, one number for each element of a row; "" for none.
    """

    kind = "norm_and_codes"
    traits = Traits(in_place=("x",))
    x: Read
    residual: Read
    ys: Annotated[tuple[str, str], Writes()]
    norm: LayerNorm
    quantize: Quantize | Binary
    factors: str

    @property
    def label(self) -> Step:
        """The step of the plan that its time belongs to."""
        return self.norm

    @property
    def intermediate_tensors(self) -> tuple[str, ...]:
        """What steps that it replaces make."""
        return (self.quantize.y,)


def fuse(plan: Plan) -> Plan:
    """The plan with all that can run as one made one step."""
    makers = {name: step for step in plan.steps for name in writes(step)}
    instead: dict[str, Attention | NormAndCodes] = {**_attentions(plan, makers), **_norms(plan, makers)}
    gone = {name for step in instead.values() for name in step.intermediate_tensors}
    steps = (instead.get(writes(step)[0], step) for step in plan.steps if writes(step)[0] not in gone)
    return replace(plan, steps=tuple(steps))


def _attentions(plan: Plan, makers: dict[str, Step]) -> dict[str, Attention]:
    """Find attentions by output name, whose scores no other step reads and no other attention makes."""
    readers = Counter(name for step in plan.steps for name in reads(step))
    readers.update(plan.outputs)
    attentions = {}
    for step in plan.steps:
        whole = _attention(plan, step, makers) if isinstance(step, MatMul) else None
        if whole is None or whole.scores.y in attentions:
            continue
        if all(readers[name] == 1 for name in whole.intermediate_tensors):
            attentions[whole.y] = whole
    return attentions


def _norms(plan: Plan, makers: dict[str, Step]) -> dict[str, NormAndCodes]:
    """Find LayerNorms by output name, each with the first step that quantizes its rows."""
    norms: dict[str, NormAndCodes] = {}
    for step in plan.steps:
        if not isinstance(step, Quantize | Binary):
            continue
        real, factors = (step.x, "") if isinstance(step, Quantize) else _match_scaling(plan, step)
        norm = makers.get(real)
        if isinstance(norm, LayerNorm) and norm.y not in norms and plan.tensors[real].codes is None:
            ys, nodes = (norm.y, step.y), (*norm.nodes, *step.nodes)
            norms[real] = NormAndCodes(norm.name, nodes, norm.x, norm.residual, ys, norm, step, factors)
    return norms


def _match_scaling(plan: Plan, step: Binary) -> tuple[str, str]:
    """What `step` multiplies by a constant vector along its last axis to make codes, and that constant; or
    nothing."""
    for real, factors in ((step.a, step.b), (step.b, step.a)):
        if step.function != "mul" or real not in plan.tensors or factors not in plan.constants:
            continue
        x, (*outer, last) = plan.tensors[real].shape, peek(plan, factors).shape or (0,)
        along = len(outer) < len(x) and all(size == 1 for size in outer) and last == x[-1]
        if along and plan.tensors[step.y].codes is not None:
            return real, factors
    return "", ""


def _attention(plan: Plan, product: MatMul, makers: dict[str, Step]) -> Attention | None:
    softmax = makers.get(product.a)
    scores = makers.get(softmax.x) if isinstance(softmax, Softmax) else None
    if not isinstance(softmax, Softmax) or not isinstance(scores, MatMul):
        return None
    middle = plan.tensors[scores.y], plan.tensors[softmax.y]
    last = softmax.axis in (-1, len(middle[0].shape) - 1)
    ranks = {len(plan.tensors[name].shape) for name in (scores.y, product.y)}
    if not last or len(ranks) > 1 or middle[1].codes is None:
        return None
    return Attention(
        product.name,
        (*scores.nodes, *softmax.nodes, *product.nodes),
        scores.a,
        scores.b,
        (product.b,),
        softmax.mask,
        product.y,
        scores,
        softmax,
        product,
        middle,
    )
