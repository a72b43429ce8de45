"""Steps that run as one: what binders see in place of them. The plan itself, and every bit, stay as they are.

attention    matmul, softmax, matmul: the scores and what becomes of them stay in the cache
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from intact.engine.plan import Plan
from intact.engine.steps import LayerNorm, MatMul, Quantize, Softmax, Step, Tensor
from intact.engine.wiring import reads, writes


@dataclass(frozen=True)
class Attention(Step):
    """``softmax(a b) v``.

    Attributes:
        a, b, xs, mask, y: What it reads (`xs` holds v alone) and writes.
        scores, softmax, product: The steps of the plan.
        between: The tensors that `scores` and `softmax` make.
    """

    kind = "attention"
    a: str
    b: str
    xs: tuple[str]
    mask: str
    y: str
    scores: MatMul
    softmax: Softmax
    product: MatMul
    between: tuple[Tensor, Tensor]

    @property
    def label(self) -> Step:
        """The step of the plan that its time belongs to."""
        return self.product

    @property
    def absorbed(self) -> tuple[str, ...]:
        """What steps that it replaces make."""
        return self.scores.y, self.softmax.y


@dataclass(frozen=True)
class NormAndCodes(Step):
    """A LayerNorm whose reals are read, and quantized for others.

    Attributes:
        x, residual, ys: What it reads, and writes: reals and codes.
        norm, quantize: The steps of the plan.
    """

    kind = "norm_and_codes"
    x: str
    residual: str
    ys: tuple[str, str]
    norm: LayerNorm
    quantize: Quantize

    @property
    def label(self) -> Step:
        """The step of the plan that its time belongs to."""
        return self.norm

    @property
    def absorbed(self) -> tuple[str, ...]:
        """What steps that it replaces make."""
        return (self.quantize.y,)


def fuse(plan: Plan) -> Plan:
    """The plan with all that can run as one made one step."""
    makers = {name: step for step in plan.steps for name in writes(step)}
    instead: dict[str, Attention | NormAndCodes] = {**_attentions(plan, makers), **_norms(plan, makers)}
    gone = {name for step in instead.values() for name in step.absorbed}
    steps = (instead.get(writes(step)[0], step) for step in plan.steps if writes(step)[0] not in gone)
    return replace(plan, steps=tuple(steps))


def _attentions(plan: Plan, makers: dict[str, Step]) -> dict[str, Attention]:
    """By what they make: those whose scores nobody else reads."""
    readers = Counter(name for step in plan.steps for name in reads(step))
    readers.update(plan.outputs)
    found = {}
    for step in plan.steps:
        whole = _attention(plan, step, makers) if isinstance(step, MatMul) else None
        if whole is not None and all(readers[name] == 1 for name in whole.absorbed):
            found[whole.y] = whole
    return found


def _norms(plan: Plan, makers: dict[str, Step]) -> dict[str, NormAndCodes]:
    """By what they make: each with the first Quantize behind it."""
    found: dict[str, NormAndCodes] = {}
    for step in plan.steps:
        norm = makers.get(step.x) if isinstance(step, Quantize) else None
        if not isinstance(step, Quantize) or not isinstance(norm, LayerNorm) or norm.y in found:
            continue
        if plan.tensors[norm.y].codes is None:
            made, nodes = (norm.y, step.y), (*norm.nodes, *step.nodes)
            found[norm.y] = NormAndCodes(norm.name, nodes, norm.x, norm.residual, made, norm, step)
    return found


def _attention(plan: Plan, product: MatMul, makers: dict[str, Step]) -> Attention | None:
    softmax = makers.get(product.a)
    scores = makers.get(softmax.x) if isinstance(softmax, Softmax) else None
    if not isinstance(softmax, Softmax) or not isinstance(scores, MatMul):
        return None
    between = plan.tensors[scores.y], plan.tensors[softmax.y]
    last = softmax.axis in (-1, len(between[0].shape) - 1)
    ranks = {len(plan.tensors[name].shape) for name in (scores.y, product.y)}
    if not last or len(ranks) > 1 or between[1].codes is None:
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
        between,
    )
