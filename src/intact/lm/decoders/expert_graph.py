"""Writes the experts of a decoder's layer: a router, and the products of those that it chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.node_writer import Encode, NodeWriter
from intact.lm.description.decoder_config import Experts


@dataclass(frozen=True)
class ExpertGraph:
    """Writes experts.

    Attributes:
        write: Into the graph.
        weights, encode: Of the decoder.
        experts: What there is.
        product: Writes a layer with floats: (role, layer, x) -> y.
        bend: Writes the function of MLPs: (prefix of names, x) -> y.
    """

    write: NodeWriter
    weights: DecoderWeights
    encode: Encode
    experts: Experts
    product: Callable[[str, int, str], str]
    bend: Callable[[str, str], str]

    def mixture(self, layer: int, x: str) -> str:
        """Write the sum of a token's experts: rows choose their matrices among the products of all."""
        name, hidden = f"{layer}.experts", self.weights.config.hidden
        rows = self.write.node("Reshape", [x, self.write.sizes(-1, hidden)], f"{name}.rows")
        weights, index = self._router(layer, rows)
        each = self.write.node("Unsqueeze", [index, self.write.sizes(-1)], f"{name}.each")
        up = self._select_product(layer, "expert_up", rows, each)
        if self.experts.is_gated:
            gate = self._select_product(layer, "expert_gate", rows, each)
            gate, up = self._clamp(name, gate, up)
            inner = self.write.node("Mul", [gate, up], f"{name}.inner")
        else:
            inner = self.bend(f"{name}.", up)
        inner = self.write.node(
            "Reshape", [inner, self.write.sizes(-1, self.experts.inner)], f"{name}.inner.rows"
        )
        alone = self.write.node("Reshape", [index, self.write.sizes(-1, 1)], f"{name}.alone")
        outer = self._select_product(layer, "expert_down", inner, alone)
        outer = self.write.node(
            "Reshape", [outer, self.write.sizes(-1, self.experts.chosen, hidden)], f"{name}.outer"
        )
        factors = self.write.node("Unsqueeze", [weights, self.write.sizes(-1)], f"{name}.factors")
        weighted = self.write.node("Mul", [outer, factors], f"{name}.weighted")
        self.write.node("ReduceSum", [weighted, self.write.sizes(1)], f"{name}.sum", keepdims=0)
        shape = self.write.node("Shape", [x], f"{name}.shape")
        return self.write.node("Reshape", [f"{name}.sum", shape], name)

    def _clamp(self, name: str, gate: str, up: str) -> tuple[str, str]:
        """Return the function of gates, and values, within bounds where there are any."""
        experts, write = self.experts, self.write
        if experts.limit:
            gate = write.clip(gate, experts.limit, f"{name}.gate.clamped", has_least=False)
            up = write.clip(up, experts.limit, f"{name}.up.clamped")
        if experts.offset:
            up = write.number("Add", up, experts.offset, f"{name}.up.moved")
        swish = f"{name}.swish"
        return write.swish(gate, experts.slope, swish) if experts.slope else self.bend(f"{name}.", gate), up

    def _router(self, layer: int, rows: str) -> tuple[str, str]:
        """Return the weights of each row's experts, and which they are, [rows, chosen]."""
        name = f"{layer}.router"
        logits = self.product("router", layer, rows)
        if self.experts.scores == "chosen":
            best, index = self._top_k(logits, self.experts.chosen, f"{name}.best")
            self.write.node("Softmax", [best], f"{name}.weights", axis=-1)
            return self._scale(f"{name}.weights"), index
        kind = "Sigmoid" if self.experts.scores == "sigmoid" else "Softmax"
        scores = self.write.node(kind, [logits], f"{name}.scores")
        choice = scores
        if self.experts.has_correction:
            correction = self.write.composer.constant(f"{name}.correction", self.weights.correction(layer))
            choice = self.write.node("Add", [scores, correction], f"{name}.choice")
        if self.experts.chosen_groups < self.experts.groups:
            choice = self._within_groups(choice, name)
        weights, index = self._top_k(choice, self.experts.chosen, f"{name}.best")
        if choice != scores:
            weights = f"{name}.own"
            self.write.node("GatherElements", [scores, index], weights, axis=1)
        if self.experts.normalizes:
            total = self.write.node("ReduceSum", [weights, self.write.sizes(-1)], f"{name}.total")
            weights = self.write.node("Div", [weights, total], f"{name}.shares")
        return self._scale(weights), index

    def _scale(self, weights: str) -> str:
        if self.experts.scale == 1.0:
            return weights
        return self.write.number("Mul", weights, self.experts.scale, f"{weights}.scaled")

    def _within_groups(self, scores: str, name: str) -> str:
        """Return scores, of which those beyond the best groups are lower than all others."""
        groups, each = self.experts.groups, self.experts.count // self.experts.groups
        apart = self.write.node("Reshape", [scores, self.write.sizes(-1, groups, each)], f"{name}.groups")
        best, _ = self._top_k(apart, min(2, each), f"{name}.leaders")
        self.write.node("ReduceSum", [best, self.write.sizes(-1)], f"{name}.sums", keepdims=0)
        _, chosen = self._top_k(f"{name}.sums", self.experts.chosen_groups, f"{name}.chosen")
        columns = self.write.node("Unsqueeze", [chosen, self.write.sizes(-1)], f"{name}.chosen.one")
        every = self.write.composer.constant(f"{name}.every", np.arange(groups))
        same = self.write.node("Equal", [columns, every], f"{name}.same")
        self.write.node("Cast", [same], f"{name}.marks", to=1)
        self.write.node("ReduceSum", [f"{name}.marks", self.write.sizes(1)], f"{name}.open", keepdims=0)
        penalty = self.write.number(
            "Mul", self.write.number("Sub", f"{name}.open", 1.0, f"{name}.closed"), 1e30, f"{name}.penalty"
        )
        penalty = self.write.node("Unsqueeze", [penalty, self.write.sizes(-1)], f"{name}.penalty.one")
        open_scores = self.write.node("Add", [apart, penalty], f"{name}.kept")
        return self.write.node(
            "Reshape", [open_scores, self.write.sizes(-1, self.experts.count)], f"{name}.choice.kept"
        )

    def _top_k(self, x: str, count: int, name: str) -> tuple[str, str]:
        outputs = [name, f"{name}.index"]
        self.write.composer.node("TopK", [x, self.write.sizes(count)], outputs, name=name, axis=-1)
        return name, f"{name}.index"

    def _select_product(self, layer: int, role: str, rows: str, index: str) -> str:
        """Multiply rows by the matrices of all experts; keep the outputs of those that `index` chooses."""
        y = f"{layer}.{role}"
        self.write.linear(rows, f"{y}.all", self.encode(role, layer, self.weights.experts(role, layer)))
        every = f"{y}.all"
        if self.experts.has_biases:
            biases = self.write.composer.constant(f"{y}.bias", self.weights.expert_biases(role, layer))
            every = self.write.node("Add", [every, biases], f"{y}.biased")
        apart = self.write.node("Reshape", [every, self.write.sizes(0, self.experts.count, -1)], f"{y}.apart")
        self.write.node("GatherND", [apart, index], y, batch_dims=1)
        return y
