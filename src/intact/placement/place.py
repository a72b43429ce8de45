"""`place`: decide where the pairs of a float graph go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from intact.errors import QuantValueError
from intact.graph import Model, Value
from intact.patterns import exact
from intact.placement.activations import activation_behind
from intact.placement.epilogue_chains import linear_tail
from intact.placement.layers import Fuser
from intact.placement.placement_graph import Op, View
from intact.placement.profiles import Profile, profile_of
from intact.placement.records import Kept, Placement
from intact.placement.rules import Context, Int8, rules_of
from intact.placement.rules.base import not_float
from intact.placement.rules.float_reasons import float_reason
from intact.placement.sites import Decisions, make_sites


@dataclass(frozen=True)
class Choice:
    """Decides by names and patterns which nodes may run in int8.

    Attributes:
        include: Patterns over node names or operator types; empty: every node.
        exclude: The same, for nodes that stay in float whatever `include` says.
        keep_float: Operator types that stay in float.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keep_float: tuple[str, ...] = ()

    def exclusion_reason(self, op: Op) -> str | None:
        """Return why `op` is kept in float and apart from other layers; None where it is not."""
        if op.op_type in self.keep_float:
            return f"kept in float: {op.op_type} is among the operators to keep"
        pattern = _match(op, self.exclude)
        return f"kept in float: it matches '{pattern}' of exclude" if pattern is not None else None

    def omission_reason(self, op: Op) -> str | None:
        """Return why `op` does not ask for int8 by itself; None where it may."""
        if (why := self.exclusion_reason(op)) is not None:
            return why
        if self.include and _match(op, self.include) is None:
            return "kept in float: it matches nothing of include"
        return None


def _match(op: Op, patterns: Sequence[str]) -> str | None:
    return next((p for p in patterns if fnmatchcase(op.name, p) or fnmatchcase(op.op_type, p)), None)


def place(
    model: Model, profile: str | Profile = "intact", *, include: Sequence[str] = (),
    exclude: Sequence[str] = (), keep_float: Sequence[str] = (),
) -> Placement:  # fmt: skip
    """Decide which tensors of a float graph are quantized, and what runs as one layer.

    Args:
        model: A float graph; not changed. Shapes help where sizes decide, and are not needed.
        profile: The engine that will run it: a name of `PROFILES`.
        include: Patterns over node names or operator types: only these nodes ask for int8. One that is a
            name itself means that name alone, whatever characters are in it.
        exclude: Patterns of nodes that stay in float.
        keep_float: Operator types that stay in float.
    Raises:
        QuantValueError: The graph has Q/DQ already, or there is no such profile.
    """
    view = View(model)
    if view.has_quantizers():
        raise QuantValueError(
            "model",
            "a graph that has Q/DQ pairs",
            "a float graph",
            "run `intact strip` first, or `intact explain` to see what its pairs do",
        )
    names = {name for op in view.ops for name in (op.name, op.op_type)}
    included, excluded = (
        tuple(exact(pattern, names) for pattern in patterns) for patterns in (include, exclude)
    )
    choice = Choice(included, excluded, tuple(keep_float))
    walk = _Walk(view, profile_of(profile), choice)
    decisions = walk.run()
    sites = make_sites(view, walk.ctx.profile, decisions)
    marked = {reader for site in sites for reader in site.readers}
    fuser = Fuser(
        view,
        walk.ctx.profile,
        quantized=lambda reader: (reader[0].name, reader[1]) in marked,
        reasons={op: got.reason for op, got in decisions.items() if isinstance(got, Kept)},
        barred=lambda op: choice.exclusion_reason(op) is not None,
    )
    return Placement(tuple(sites), *fuser.layers(), walk.ctx.profile)


class _Walk:
    """Applies the rules: first to products, then to the rest from the outputs to the inputs.

    A node that computes between int8 layers, or only moves data, runs in int8 where its readers do: they are
    asked before it. A layer that multiplies pays in int8 whoever reads it.
    """

    def __init__(self, view: View, profile: Profile, choice: Choice) -> None:
        self.ctx = Context(view, profile)
        self._choice = choice
        self._decisions: Decisions = {}

    def run(self) -> Decisions:
        """Run the rules, and return the decision about each op that no other layer fuses."""
        for op in self.ctx.view.ops:
            self._ask_root(op)
        self._claim_activations()
        for op in reversed(self.ctx.view.ops):
            if op not in self._decisions and op not in self.ctx.fused:
                self._decide(op, self._ask(op, ("projects", "joins", "computes", "moves")))
        return self._decisions

    def _ask_root(self, op: Op) -> None:
        got = self._ask(op, ("multiplies",))
        if isinstance(got, Int8):
            self._decide(op, got)
            self.ctx.roots.add(op)
            tail = linear_tail(self.ctx.view, op, self._is_barred, lambda reader: False)
            self.ctx.fused.update(tail.ops[1:])
            self.ctx.stems[tail.output] = op
        elif any(rule.kind == "multiplies" for rule in rules_of(op.op_type, op.domain)):
            self._decisions[op] = got

    def _is_barred(self, op: Op) -> bool:
        return self._choice.exclusion_reason(op) is not None

    def _claim_activations(self) -> None:
        """Claim the nodes of each activation as one operator: behind a layer or sum as its epilogue, else in
        float.

        Before: ``Gemm -> Reshape -> Pow, Mul, Add, Mul, Tanh, Add, Mul -> Gemm``, a GELU in seven nodes.
        After: a pair in front of the second Gemm, and none between the seven.
        """
        view = self.ctx.view
        for value in (*view.model.graph.inputs, *(v for op in view.ops for v in op.outputs)):
            activation = activation_behind(view, self.ctx.profile, value)
            if activation is None or any(map(self._is_barred, activation.ops)):
                continue
            op = view.producer(value)
            summed = op is not None and op.domain == "" and op.op_type in ("Add", "Mul")
            if summed or value in self.ctx.stems or len(activation.ops) > 1:
                self.ctx.fused.update(activation.ops)

    def _ask(self, op: Op, kinds: tuple[str, ...]) -> Int8 | Kept:
        rules = [rule for rule in rules_of(op.op_type, op.domain) if rule.kind in kinds]
        if (
            why := self._choice.exclusion_reason(op)
            if rules and rules[0].kind == "moves"
            else self._choice.omission_reason(op)
        ):
            return Kept(why)
        reason = Kept(float_reason(op.op_type, op.domain))
        has_asked = False
        for rule in rules:
            inputs = rule.reads(self.ctx.view, op)
            if isinstance(inputs, tuple):
                got = not_float(op, inputs) or rule.wants(self.ctx, op, inputs)
                if isinstance(got, Int8):
                    return got
                reason, has_asked = got, True
            elif not has_asked:  # a rule that could apply says more than one that cannot
                reason = inputs
        return reason

    def _decide(self, op: Op, got: Int8 | Kept) -> None:
        self._decisions[op] = got
        if isinstance(got, Int8):
            self.ctx.wanted.update((op, i) for i in got.inputs if isinstance(op.inputs[i], Value))
