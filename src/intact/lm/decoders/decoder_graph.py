"""A decoder as an ONNX model with a cache: what placement, lowering and ONNX Runtime read.

Inputs: ``tokens`` int64 [batch, tokens]; ``last`` int32 [batch], the position of each sequence's last token;
``total`` int32 [], the longest sequence; ``rows`` int64 [wanted] and ``state_rows`` int64 [states], the
tokens, counted through all sequences, whose logits and whose hidden states are wanted; for each layer i that
attends ``keys.i`` and ``values.i`` float32 [batch, kv heads, room, size], and for each with states
``convolved.i`` [batch, 1, tokens, columns] and ``recurrent.i`` [batch, heads, key size, value size].

Outputs: ``logits`` float32 [wanted, vocabulary]; ``states`` float32 [states, hidden], which the head would
read; and the new caches ``new_keys.i`` and so on, for which a caller passes the arrays of the old ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from intact.errors import QuantValueError, UnsupportedError
from intact.formats import floats_of
from intact.graph.ops import MICROSOFT, VARIANTS
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.expert_graph import ExpertGraph
from intact.lm.decoders.mixer_graph import MixerGraph
from intact.lm.decoders.node_writer import Encode, NodeWriter
from intact.lm.description.decoder_config import Experts
from intact.lm.sequence_cache import STATE_ROWS

_OPSET = 21
_OPERATORS = {variant.step: record.__name__ for record, variant in VARIANTS if variant.is_default}
"""Function -> the operator that computes it without attributes."""


def decoder_model(weights: DecoderWeights, positions: int, encode: Encode, *, in_floats: bool = False) -> Any:
    """Build the model.

    Args:
        weights: Of the decoder.
        positions: The longest sequence that it takes.
        encode: Chooses the codes of weights.
        in_floats: Whether activations stay floats in front of weights with codes.
    Returns:
        An onnx-ir model.
    """
    return _Decoder(weights, positions, encode, in_floats).build()


class _Decoder:
    """Writes one decoder. Values are named by the layer and what they are."""

    def __init__(self, weights: DecoderWeights, positions: int, encode: Encode, in_floats: bool) -> None:
        self._weights, self._config, self._encode = weights, weights.config, encode
        self._positions, self._has_places = positions, False
        self._place_rows = set[str]()
        self._write = NodeWriter(_OPSET, in_floats)
        self._composer = self._write.composer
        if 0 < self._config.longest < positions:
            raise QuantValueError(
                "positions", str(positions),
                f"at most {self._config.longest}: longer ones rotate or attend otherwise", "ask for fewer",
            )  # fmt: skip
        self._tables = self._angles(positions, "")
        self._local_tables = self._angles(positions, "local.") if self._config.local_rotary else self._tables

    def build(self) -> Any:
        composer, config = self._composer, self._config
        composer.input("tokens", "int64", ["batch", "tokens"])
        composer.input("last", "int32", ["batch"])
        composer.input("total", "int32", [])
        composer.input("rows", "int64", ["wanted"])
        composer.input(STATE_ROWS, "int64", ["states"])
        shapes: dict[str, list[int | str]] = {
            name: ["batch", heads, "room" if tokens is None else tokens, size]
            for name, (heads, tokens, size) in config.cache_shapes().items()
        }
        for name, shape in shapes.items():
            composer.input(name, "float32", shape)
        x = self._embed()
        for layer in range(config.layers):
            x = self._block(layer, x)
        self._head(x)
        composer.output("logits", "float32", ["wanted", config.vocabulary])
        composer.output("states", "float32", ["states", config.hidden])
        for name, shape in shapes.items():
            composer.output(f"new_{name}", "float32", shape)
        self._weights.check_all_read()
        return composer.load(is_last=True)

    def _angles(self, positions: int, prefix: str) -> list[str]:
        rotary = (self._config.local_rotary if prefix else None) or self._config.rotary
        tables = rotary.angles(positions)
        return [
            self._composer.constant(prefix + name, table)
            for name, table in zip(("cosines", "sines"), tables, strict=True)
        ]

    def _embed(self) -> str:
        table = self._weights.linear("embedding")
        self._embedding = self._encode("head" if self._config.tied else "embedding", 0, table)
        self._write.gather("tokens", "embedding", self._embedding)
        x = "embedding"
        if self._config.embedding_scale != 1.0:
            x = self._write.number("Mul", x, self._config.embedding_scale, "embedding.scaled")
        if self._config.embedding_norm:
            x = self._norm(x, "embedding_norm", None)
        return (
            self._write.node("Add", [x, self._places()], "embedding.placed")
            if self._config.learned_positions
            else x
        )

    def _places(self) -> str:
        """Read the vectors of the tokens' positions: ``last`` is that of the last one."""
        most = self._config.context
        if self._positions > most:
            raise QuantValueError(
                "positions",
                str(self._positions),
                f"at most {most}, as the model has vectors for",
                "ask for fewer",
            )
        table = np.asarray(floats_of(self._weights.linear("positions")), np.float32)
        begin = self._config.position_offset
        self._write.gather(
            self._positions_of_tokens(), "places.vectors", table[begin : begin + self._positions]
        )
        return "places.vectors"

    def _positions_of_tokens(self) -> str:
        """Return the positions of the tokens, int64 [batch, tokens]: ``last`` is that of the last one."""
        if self._has_places:
            return "places"
        self._has_places, composer = True, self._composer
        unit = composer.constant("unit", np.int64(1))
        axis = composer.constant("places.axis", np.array([1]))
        sizes = self._write.node("Shape", ["tokens"], "tokens.sizes")
        count = self._write.node("Gather", [sizes, unit], "tokens.count")
        first = self._write.node("Sub", [unit, count], "places.first")
        offsets = self._write.node("Range", [first, unit, unit], "places.offsets")
        composer.node("Cast", ["last"], ["last.whole"], name="last.whole", to=7)
        ends = self._write.node("Unsqueeze", ["last.whole", axis], "places.ends")
        return self._write.node("Add", [ends, offsets], "places")

    def _block(self, layer: int, x: str) -> str:
        norms, config = self._config.norms, self._config
        if not config.has_attention(layer) and not config.has_mixer(layer):
            return self._residual(x, self._mlp(layer, self._norm(x, "mlp_norm", layer)), f"{layer}.out")
        rows = x if norms == "after" else self._norm(x, "attention_norm", layer)
        mixed = self._token_mixer(layer, rows)
        if norms in ("both", "after"):
            mixed = self._norm(mixed, "post_attention_norm", layer)
        if norms in ("parallel", "shared"):
            rows = rows if norms == "shared" else self._norm(x, "mlp_norm", layer)
            inner = self._write.node("Add", [mixed, self._mlp(layer, rows)], f"{layer}.both")
            return self._residual(x, inner, f"{layer}.out")
        x = self._residual(x, mixed, f"{layer}.attended")
        if not self._config.has_mlp(layer):
            return x
        inner = self._mlp(layer, x if norms == "after" else self._norm(x, "mlp_norm", layer))
        if norms in ("both", "after"):
            inner = self._norm(inner, "post_mlp_norm", layer)
        return self._residual(x, inner, f"{layer}.out")

    def _token_mixer(self, layer: int, rows: str) -> str:
        """Write what tokens of a layer tell each other by: attention or states."""
        mixer = self._config.mixer
        if mixer is None or not self._config.has_mixer(layer):
            return self._attention(layer, rows)
        function = partial(self._function, kind=mixer.activation)
        graph = MixerGraph(self._write, self._weights, mixer, self._product, function)
        mixed = graph.mix(layer, rows)
        if self._config.has_attention(layer):
            mixed = self._write.node("Add", [mixed, self._attention(layer, rows)], f"{layer}.mixers")
        return mixed

    def _residual(self, x: str, addend: str, y: str) -> str:
        if self._config.residual_scale != 1.0:
            addend = self._write.number("Mul", addend, self._config.residual_scale, f"{y}.addend")
        return self._write.node("Add", [x, addend], y)

    def _attention(self, layer: int, rows: str) -> str:
        config = self._config
        q, k, v = self._projections(layer, rows)
        if config.clip:
            q, k, v = (self._write.clip(x, config.clip, f"{x}.clipped") for x in (q, k, v))
        rotates = not config.learned_positions and layer not in config.unrotated
        tables = self._local_tables if layer in config.windowed else self._tables
        heads = (config.heads, config.kv_heads)
        if config.norms_rotated and rotates:
            q, k = (self._rotate(x, tables, count) for x, count in zip((q, k), heads, strict=True))
            rotates = False
        if config.qk_norm:
            q, k = (
                self._head_norm(layer, x, f"{role}_norm", count)
                for x, role, count in zip((q, k), "qk", heads, strict=True)
            )
        if config.query_scale is not None and layer in config.query_scale.layers:
            q = self._write.node("Mul", [q, self._rows_of_positions("query_scale")], f"{layer}.q.grown")
        y = f"{layer}.mixed"
        if config.linear_biases is not None:
            q, k, v = self._with_biases(layer, q, k, v)
            y = f"{layer}.mixed.longer"
        caches = [f"{name}.{layer}" for name in ("keys", "values")]
        sinks = self._sinks(layer) if config.has_sinks else []
        self._composer.node(
            "GroupQueryAttention",
            [q, k, v, *caches, "last", "total", *(tables if rotates else ["", ""] * bool(sinks)), *sinks],
            [y, *(f"new_{name}" for name in caches)], name=y, domain=MICROSOFT, num_heads=config.heads,
            kv_num_heads=config.kv_heads, scale=config.attention_scale, do_rotary=int(rotates),
            rotary_interleaved=int(config.interleaved) if rotates else None,
            softcap=config.attention_cap or None,
            local_window_size=config.window if layer in config.windowed else None,
        )  # fmt: skip
        if config.linear_biases is not None:
            y = self._without_last(y, f"{layer}.mixed")
        if config.inner_norms:
            y = self._norm(y, "o_norm", layer)
        if config.gates_attention:
            gate = self._write.node("Sigmoid", [self._product("q_gate", layer, rows)], f"{layer}.gates")
            y = self._write.node("Mul", [y, gate], f"{layer}.mixed.gated")
        return self._product("o", layer, y)

    def _rows_of_positions(self, table: str) -> str:
        """Read the rows of a table at the tokens' positions, [batch, tokens, columns]: "query_scale" or
        "linear_biases"."""
        y = f"places.{table}"
        if y not in self._place_rows:
            self._place_rows.add(y)
            values = getattr(self._config, table).table(self._positions)
            self._write.gather(self._positions_of_tokens(), y, values)
        return y

    def _with_biases(self, layer: int, q: str, k: str, v: str) -> list[str]:
        """Give each head one more channel: 1 in queries, what its position adds to scores in keys, and 0.

        So linear biases are products of queries and keys, which caches hold like all others.
        """
        write, heads = self._write, self._config.heads
        apart = [write.node("Reshape", [x, write.sizes(0, 0, heads, -1)], f"{x}.heads") for x in (q, k, v)]
        pads = write.sizes(0, 0, 0, 0, 0, 0, 0, 1)
        ends = {
            name: self._composer.constant(f"{layer}.{name}", np.float32(number))
            for name, number in (("one", 1 / self._config.attention_scale), ("zero", 0.0))
        }
        longer_q, longer_v = (
            write.node("Pad", [x, pads, ends[end]], f"{x}.longer")
            for x, end in ((apart[0], "one"), (apart[2], "zero"))
        )
        biases = write.node(
            "Unsqueeze", [self._rows_of_positions("linear_biases"), write.sizes(-1)], f"{layer}.k.biases"
        )
        longer_k = write.node("Concat", [apart[1], biases], f"{k}.longer", axis=-1)
        return [
            write.node("Reshape", [x, write.sizes(0, 0, -1)], f"{x}.flat")
            for x in (longer_q, longer_k, longer_v)
        ]

    def _without_last(self, x: str, y: str) -> str:
        """Drop the last channel of each head of x [batch, tokens, heads * size]."""
        write, config = self._write, self._config
        apart = write.node("Reshape", [x, write.sizes(0, 0, config.heads, -1)], f"{x}.heads")
        cut = [write.sizes(number) for number in (0, config.head_size, -1)]
        return write.node(
            "Reshape", [write.node("Slice", [apart, *cut], f"{x}.cut"), write.sizes(0, 0, -1)], y
        )

    def _sinks(self, layer: int) -> list[str]:
        """Return the inputs of an attention behind its tables, the last of which are its sinks."""
        return ["", "", self._composer.constant(f"{layer}.sinks", self._weights.sinks(layer))]

    def _projections(self, layer: int, rows: str) -> list[str]:
        """Return queries, keys and values, [batch, tokens, heads * size]."""
        latent, write = self._config.latent, self._write
        if latent is None:
            return [self._product(role, layer, rows) for role in "qkv"]
        if latent.q_rank:
            short = self._norm(self._product("q_a", layer, rows), "q_a_norm", layer, epsilon=latent.epsilon)
            q = self._product("q_b", layer, short)
        else:
            q = self._product("q", layer, rows)
        short = self._norm(self._product("kv_a", layer, rows), "kv_a_norm", layer, epsilon=latent.epsilon)
        heads, name = self._config.heads, f"{layer}.k"
        plain = self._product("k_plain", layer, short)
        plain = write.node("Reshape", [plain, write.sizes(0, 0, heads, -1)], f"{name}.plain.heads")
        rotated = self._product("k_rotated", layer, rows)
        rotated = write.node("Reshape", [rotated, write.sizes(0, 0, 1, -1)], f"{name}.rotated.head")
        rotated = write.node("Expand", [rotated, write.sizes(1, 1, heads, 1)], f"{name}.rotated.heads")
        k = write.node("Concat", [rotated, plain], f"{name}.heads", axis=-1)
        k = write.node("Reshape", [k, write.sizes(0, 0, -1)], name)
        return [q, k, self._product("v", layer, short)]

    def _rotate(self, x: str, tables: list[str], heads: int) -> str:
        """Rotate each head of x [batch, tokens, heads * size]."""
        pairs, y = self._config.rotary.pairs, f"{x}.rotated"
        self._composer.node(
            "RotaryEmbedding", [x, self._positions_of_tokens(), *tables], [y], name=y, domain=MICROSOFT,
            num_heads=heads, interleaved=int(self._config.interleaved),
            rotary_embedding_dim=2 * pairs if 2 * pairs < self._config.head_size else 0,
        )  # fmt: skip
        return y

    def _mlp(self, layer: int, rows: str) -> str:
        experts = self._config.experts
        if experts is not None and layer in experts.layers:
            graph = ExpertGraph(
                self._write, self._weights, self._encode, experts, self._product, self._function
            )
            return self._with_shared(layer, rows, graph.mixture(layer, rows), experts)
        return self._dense(layer, rows, "")

    def _with_shared(self, layer: int, rows: str, y: str, experts: Experts) -> str:
        """Add the MLP that all tokens have beside their experts."""
        if not experts.shared:
            return y
        shared = self._dense(layer, rows, "shared_")
        if experts.gates_shared:
            product = self._product("shared_scale", layer, rows)
            gate = self._write.node("Sigmoid", [product], f"{layer}.shared_gates")
            shared = self._write.node("Mul", [shared, gate], f"{layer}.shared")
        return self._write.node("Add", [y, shared], f"{layer}.mlp")

    def _dense(self, layer: int, rows: str, prefix: str) -> str:
        """Write an MLP, whose roles begin with `prefix`."""
        is_gated = self._config.is_gated
        bent = self._product(f"{prefix}gate" if is_gated else f"{prefix}up", layer, rows)
        inner = self._function(f"{layer}.{prefix}", bent)
        if is_gated:
            inner = self._write.node(
                "Mul", [inner, self._product(f"{prefix}up", layer, rows)], f"{layer}.{prefix}inner"
            )
        if self._config.inner_norms:
            inner = self._norm(inner, "down_norm", layer)
        return self._product(f"{prefix}down", layer, inner)

    def _function(self, prefix: str, x: str, kind: str = "") -> str:
        """Apply a function; "": that of MLPs."""
        kind = kind or self._config.activation
        if kind in ("silu", "quick_gelu"):
            return self._write.swish(x, 1.0 if kind == "silu" else 1.702, f"{prefix}{kind}")
        if kind.startswith("gelu"):
            y = f"{prefix}gelu"
            self._composer.node(
                "Gelu", [x], [y], name=y, approximate="tanh" if kind == "gelu_tanh" else "none"
            )
            return y
        if kind == "relu2":
            bent = self._write.node("Relu", [x], f"{prefix}relu")
            return self._write.node("Mul", [bent, bent], f"{prefix}relu2")
        return x if kind == "linear" else self._write.node(_OPERATORS[kind], [x], f"{prefix}{kind}")

    def _head(self, x: str) -> None:
        flat = self._composer.constant("flat", np.array([-1, self._config.hidden]))
        rows = self._write.node("Reshape", [x, flat], "tokens.flat")
        self._composer.node("Gather", [rows, STATE_ROWS], ["state.rows"], name="state.rows", axis=0)
        self._norm("state.rows", "norm", None, "states")
        self._composer.node("Gather", [rows, "rows"], ["wanted.rows"], name="wanted.rows", axis=0)
        normed = self._norm("wanted.rows", "norm", None)
        config, cap = self._config, self._config.logit_cap
        is_divided = config.logit_divisor != 1.0
        has_bias = self._weights.has_bias("head")
        last = "head" if cap or is_divided else "logits"
        y = "head.product" if has_bias else last
        weight = self._embedding if config.tied else self._encode("head", 0, self._weights.linear("head"))
        self._write.linear(normed, y, weight)
        if has_bias:
            bias = self._composer.constant("head.bias", self._weights.vector("head", part="bias"))
            y = self._write.node("Add", [y, bias], last)
        if is_divided:
            y = self._write.number("Div", y, config.logit_divisor, "head.divided" if cap else "logits")
        if cap:
            bent = self._write.node("Tanh", [self._write.number("Div", y, cap, "head.scaled")], "head.tanh")
            self._write.number("Mul", bent, cap, "logits")

    def _product(self, role: str, layer: int, x: str) -> str:
        y, has_bias = f"{layer}.{role}", self._weights.has_bias(role, layer)
        factor = self._config.input_factors.get(role, 1.0)
        is_changed = has_bias or factor != 1.0
        product = f"{y}.product" if is_changed else y
        self._write.linear(x, product, self._encode(role, layer, self._weights.linear(role, layer)))
        if factor != 1.0:
            product = self._write.number("Mul", product, factor, f"{y}.scaled" if has_bias else y)
        if has_bias:
            bias = self._composer.constant(f"{y}.bias", self._weights.vector(role, layer, "bias"))
            self._write.node("Add", [product, bias], y)
        if parts := self._config.output_factors.get(role):
            factors = np.concatenate([np.full(count, each, np.float32) for count, each in parts])
            constant = self._composer.constant(f"{y}.factors", factors)
            y = self._write.node("Mul", [y, constant], f"{y}.times")
        return y

    def _norm(self, x: str, role: str, layer: int | None, y: str = "", epsilon: float | None = None) -> str:
        y, config = y or (role if layer is None else f"{layer}.{role}"), self._config
        epsilon = config.epsilon if epsilon is None else epsilon
        is_qk = role in ("q_norm", "k_norm")
        weight = np.ones(config.head_size if is_qk else config.hidden, np.float32)
        if config.has_norm_weights:
            weight = self._weights.vector(role, layer or 0) + np.float32(config.norm_offset)
        own = weight if weight.ndim == 2 else None  # weights of its own for each head
        plain = weight if own is None else np.ones_like(own[0])
        inputs = [x, self._composer.constant(f"{y}.weight", plain)]
        normed = y if own is None else f"{y}.equal"
        has_bias = config.has_norm_weights and (config.qk_norm_biases if is_qk else config.has_norm_biases)
        if config.is_layer_norm:
            shared = has_bias and own is None
            bias = self._weights.vector(role, layer or 0, "bias") if shared else np.zeros_like(plain)
            inputs.append(self._composer.constant(f"{y}.bias", bias))
            self._composer.node("LayerNormalization", inputs, [normed], name=normed, axis=-1, epsilon=epsilon)
        else:
            self._composer.node(
                "SimplifiedLayerNormalization", inputs, [normed], name=normed, axis=-1,
                epsilon=epsilon,
            )  # fmt: skip
        if own is not None:
            if has_bias:
                raise UnsupportedError(
                    role, "biases beside weights for each head", "weights alone", "use torch"
                )
            self._write.node("Mul", [normed, self._composer.constant(f"{y}.own", own)], y)
        return y

    def _head_norm(self, layer: int, x: str, role: str, heads: int) -> str:
        """Norm each head of x [batch, tokens, heads * size] by itself, or all of them together."""
        if self._config.qk_norm == "whole":
            return self._norm(x, role, layer)
        apart = self._composer.constant(f"{layer}.{role}.apart", np.array([0, 0, heads, -1]))
        joined = self._composer.constant(f"{layer}.{role}.joined", np.array([0, 0, -1]))
        split = self._write.node("Reshape", [x, apart], f"{layer}.{role}.heads")
        normed = self._norm(split, role, layer)
        return self._write.node("Reshape", [normed, joined], f"{layer}.{role}.flat")
