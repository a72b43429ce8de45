"""Writes layers with states: short convolutions, the gated delta rule and selective state spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from intact.graph.ops import MICROSOFT
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.node_writer import NodeWriter
from intact.lm.description.decoder_config import Mixer


@dataclass(frozen=True)
class MixerGraph:
    """Writes layers with states. Each state is an input and an output; callers may pass one array for both.

    Attributes:
        write: Into the graph.
        weights: Of the decoder.
        mixer: What the layers are.
        product: Writes a layer: (role, layer, x) -> y.
        bend: Writes the function behind convolutions: (prefix of names, x) -> y.
    """

    write: NodeWriter
    weights: DecoderWeights
    mixer: Mixer
    product: Callable[[str, int, str], str]
    bend: Callable[[str, str], str]

    def mix(self, layer: int, rows: str) -> str:
        """Write the layer over rows [batch, tokens, hidden]."""
        kinds = {
            "conv": self._convolution_between_gates, "delta": self._delta_rule, "ssm": self._state_space,
            "scan": self._selective_scan,
        }  # fmt: skip
        return self.product("mixer_out", layer, kinds[self.mixer.kind](layer, rows))

    def _convolution_between_gates(self, layer: int, rows: str) -> str:
        before, after, x = (self.product(f"mixer_{role}", layer, rows) for role in ("before", "after", "x"))
        gated = self.write.node("Mul", [before, x], f"{layer}.mixer.gated")
        convolved = self._convolve(layer, gated, self.weights.config.hidden)
        return self.write.node("Mul", [after, convolved], f"{layer}.mixer.y")

    def _delta_rule(self, layer: int, rows: str) -> str:
        mixer, name = self.mixer, f"{layer}.mixer"
        q, k, v = self._queries_keys_values(layer, rows, ("q", "k", "v"))
        # A vector of length 1 is what a norm by the root of the mean square makes, over the root of its size.
        unit = self.write.composer.constant(
            f"{name}.one", np.full(mixer.key_size, mixer.key_size**-0.5, np.float32)
        )
        q, k = (
            self._norm(self._split_heads(x, mixer.key_heads), unit, 1e-6 / mixer.key_size, f"{x}.normed")
            for x in (q, k)
        )
        q, k = (self._repeat(x, f"{x}.each") for x in (q, k))
        rates = self.product("mixer_rate", layer, rows)
        beta = self.write.node("Sigmoid", [rates], f"{name}.beta")
        decay = self._decay(layer, self._step(layer, rows))
        y = self._attend(layer, [q, k, v], "gated_delta", [decay, beta], mixer.key_size**-0.5)
        return self._gate(layer, y, rows)

    def _state_space(self, layer: int, rows: str) -> str:
        mixer, name, write = self.mixer, f"{layer}.mixer", self.write
        v, k, q = self._queries_keys_values(layer, rows, ("v", "k", "q"))
        step = self._step(layer, rows)
        least, most = mixer.least_step, mixer.most_step
        if least > 0 or most < math.inf:
            bounds = [
                write.composer.constant(f"{name}.{which}", np.float32(bound)) if is_set else ""
                for which, bound, is_set in (("least", least, least > 0), ("most", most, most < math.inf))
            ]
            step = write.node(
                "Clip", [step, *bounds] if bounds[1] else [step, bounds[0]], f"{name}.step.clipped"
            )
        q, k = (self._repeat(self._split_heads(x, mixer.key_heads), f"{x}.each") for x in (q, k))
        values = self._split_heads(v, mixer.heads)
        factors = write.node("Unsqueeze", [step, write.sizes(-1)], f"{name}.factors")
        scaled = self._join_heads(write.node("Mul", [values, factors], f"{name}.scaled"))
        y = self._attend(layer, [q, k, scaled], "gated", [self._decay(layer, step)], 1.0)
        direct = np.repeat(self.weights.mixer_vector("mixer_direct", layer), mixer.value_size)
        passed = write.node("Mul", [v, write.composer.constant(f"{name}.direct", direct)], f"{name}.passed")
        return self._gate(layer, write.node("Add", [y, passed], f"{name}.sum"), rows)

    def _selective_scan(self, layer: int, rows: str) -> str:
        """Write Mamba 1: one key and one query for all columns, each of which has a step of its own."""
        mixer, name, write = self.mixer, f"{layer}.mixer", self.write
        x = self.bend(f"{name}.", self._convolve(layer, self.product("mixer_x", layer, rows), mixer.inner))
        short, k, q = (
            self._scan_norm(layer, role, self.product(f"mixer_{role}", layer, x))
            for role in ("short", "k", "q")
        )
        step = write.node("Softplus", [self.product("mixer_step", layer, short)], f"{name}.step")
        slopes = -np.exp(self.weights.mixer_vector("mixer_slopes", layer).astype(np.float64))
        rates = write.composer.constant(f"{name}.slopes", slopes.T.astype(np.float32))
        apart = write.node("Unsqueeze", [step, write.sizes(-2)], f"{name}.step.one")
        decay = self._join_heads(write.node("Mul", [apart, rates], f"{name}.decay"))
        scaled = write.node("Mul", [x, step], f"{name}.scaled")
        y = self._attend(layer, [q, k, scaled], "gated", [decay], 1.0)
        direct = write.composer.constant(f"{name}.direct", self.weights.mixer_vector("mixer_direct", layer))
        passed = write.node("Mul", [x, direct], f"{name}.passed")
        return self._gate(layer, write.node("Add", [y, passed], f"{name}.sum"), rows)

    def _scan_norm(self, layer: int, role: str, x: str) -> str:
        """Norm what the steps are made of, keys or queries of a scan, where the family does."""
        mixer = self.mixer
        if not mixer.scan_norms:
            return x
        weight = np.ones(mixer.step_rank if role == "short" else mixer.key_size, np.float32)
        if mixer.scan_norms == "weights":
            weight = self.weights.mixer_vector(f"mixer_{role}_norm", layer)
        constant = self.write.composer.constant(f"{x}.weight", weight)
        return self._norm(x, constant, mixer.scan_epsilon, f"{x}.normed")

    # -- parts

    def _queries_keys_values(self, layer: int, rows: str, order: tuple[str, ...]) -> list[str]:
        """Return the parts of what is convolved, in their order."""
        mixer, name = self.mixer, f"{layer}.mixer"
        widths = [mixer.inner if part == "v" else mixer.keys for part in order]
        x = self.product("mixer_x", layer, rows)
        x = self.bend(f"{name}.", self._convolve(layer, x, sum(widths)))
        ends = np.cumsum([0, *widths]).tolist()
        return [
            self._slice(x, begin, end, -1, f"{name}.{part}")
            for part, begin, end in zip(order, ends, ends[1:], strict=False)
        ]

    def _convolve(self, layer: int, x: str, columns: int) -> str:
        """Add up each column of the last tokens, times weights; what is in front of x is the state."""
        name, kernel, write = f"{layer}.convolved", self.mixer.kernel, self.write
        turned = write.node("Transpose", [x], f"{name}.turned", perm=[0, 2, 1])
        inputs = [
            turned,
            write.composer.constant(f"{name}.taps", self.weights.mixer_vector("mixer_conv", layer)),
        ]
        has_bias = self.weights.has_bias("mixer_conv", layer)
        if has_bias:
            bias = self.weights.mixer_vector("mixer_conv", layer, "bias")
            inputs.append(write.composer.constant(f"{name}.bias", bias))
        outputs = [f"{name}.sums"]
        if kernel > 1:
            past = write.node(
                "Reshape", [f"convolved.{layer}", write.sizes(0, kernel - 1, columns)], f"{name}.past"
            )
            past = write.node("Transpose", [past], f"{name}.past.turned", perm=[0, 2, 1])
            inputs += [past] if has_bias else ["", past]
            outputs.append(f"{name}.kept")
        write.composer.node(
            "CausalConvWithState", inputs, outputs, name=name, domain=MICROSOFT, activation="none"
        )
        if kernel > 1:
            state = write.node("Transpose", [outputs[1]], f"{name}.kept.rows", perm=[0, 2, 1])
            shape = write.sizes(0, 1, kernel - 1, columns)
            write.node("Reshape", [state, shape], f"new_convolved.{layer}")
        return write.node("Transpose", [outputs[0]], f"{name}.y", perm=[0, 2, 1])

    def _step(self, layer: int, rows: str) -> str:
        """Return how far states move, a number above 0 for each head."""
        name = f"{layer}.mixer.step"
        bias = self.write.composer.constant(f"{name}.bias", self.weights.mixer_vector("mixer_bias", layer))
        biased = self.write.node("Add", [self.product("mixer_step", layer, rows), bias], f"{name}.biased")
        return self.write.node("Softplus", [biased], name)

    def _decay(self, layer: int, step: str) -> str:
        """Return the logarithms of what is left of states."""
        slopes = -np.exp(self.weights.mixer_vector("mixer_slopes", layer).astype(np.float64))
        constant = self.write.composer.constant(f"{layer}.mixer.slopes", slopes.astype(np.float32))
        return self.write.node("Mul", [step, constant], f"{layer}.mixer.decay")

    def _attend(self, layer: int, heads: list[str], rule: str, gates: list[str], scale: float) -> str:
        """Write the states; return what queries read, [batch, tokens, heads * value size]."""
        mixer, y = self.mixer, f"{layer}.mixer.read"
        self.write.composer.node(
            "LinearAttention", [*heads, f"recurrent.{layer}", *gates], [y, f"new_recurrent.{layer}"], name=y,
            domain=MICROSOFT, q_num_heads=mixer.heads, kv_num_heads=mixer.heads, update_rule=rule,
            scale=scale,
        )  # fmt: skip
        return y

    def _gate(self, layer: int, y: str, rows: str) -> str:
        """Norm what states give, and multiply it by a gate, in the order of the family."""
        mixer, name, write = self.mixer, f"{layer}.mixer", self.write
        product = self.product("mixer_z", layer, rows)
        gate = write.swish(product, 1.0, f"{name}.gate")
        if mixer.gates_first:
            y = write.node("Mul", [y, gate], f"{name}.gated")
        if mixer.groups:
            weight = self.weights.mixer_vector("mixer_norm", layer)
            each = mixer.heads if mixer.kind == "delta" else mixer.groups
            size = mixer.inner // each
            ones = write.composer.constant(f"{name}.ones", np.ones(size, np.float32))
            normed = self._norm(self._split_heads(y, each), ones, mixer.epsilon, f"{name}.normed.heads")
            whole = weight if len(weight) == mixer.inner else np.tile(weight, each)
            factors = write.composer.constant(f"{name}.weight", whole)
            y = write.node("Mul", [self._join_heads(normed), factors], f"{name}.normed")
        return y if mixer.gates_first else write.node("Mul", [y, gate], f"{name}.gated")

    def _norm(self, x: str, weight: str, epsilon: float, y: str) -> str:
        return self.write.node("SimplifiedLayerNormalization", [x, weight], y, axis=-1, epsilon=epsilon)

    def _split_heads(self, x: str, heads: int) -> str:
        return self.write.node("Reshape", [x, self.write.sizes(0, 0, heads, -1)], f"{x}.heads")

    def _join_heads(self, x: str) -> str:
        return self.write.node("Reshape", [x, self.write.sizes(0, 0, -1)], f"{x}.flat")

    def _repeat(self, x: str, y: str) -> str:
        """Return heads of keys [batch, tokens, key heads, size] for all heads of values, flat."""
        mixer, write = self.mixer, self.write
        times = mixer.heads // mixer.key_heads
        if times > 1:
            apart = write.node("Unsqueeze", [x, write.sizes(3)], f"{y}.one")
            x = write.node("Expand", [apart, write.sizes(1, 1, 1, times, 1)], f"{y}.all")
        return write.node("Reshape", [x, write.sizes(0, 0, mixer.heads * mixer.key_size)], y)

    def _slice(self, x: str, begin: int, end: int, axis: int, y: str) -> str:
        sizes = [self.write.sizes(number) for number in (begin, end, axis)]
        return self.write.node("Slice", [x, *sizes], y)
