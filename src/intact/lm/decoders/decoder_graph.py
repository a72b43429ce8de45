"""A decoder as an ONNX model with a cache: what placement, lowering and ONNX Runtime read.

Inputs: ``tokens`` int64 [batch, tokens]; ``last`` int32 [batch], the position of each sequence's last token;
``total`` int32 [], the longest sequence; ``rows`` int64 [wanted] and ``state_rows`` int64 [states], the
tokens, counted through all sequences, whose logits and whose hidden states are wanted; for each layer i
``keys.i`` and ``values.i`` float32 [batch, kv heads, room, size]. Outputs: ``logits`` float32 [wanted,
vocabulary]; ``states`` float32 [states, hidden], which the head would read; and the new caches ``new_keys.i``
and ``new_values.i``, for which a caller passes the arrays of the old ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.formats import BLOCK_INPUTS, block_inputs, floats_of, nbits_inputs, sort_by_group
from intact.graph import Composer
from intact.graph.ops import MICROSOFT, VARIANTS, BlockLinear
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.sequence_cache import STATE_ROWS
from intact.numerics import BlockWeights, has_exact_sums
from intact.ptq.blocks import activation_block

_OPSET = 21
Linear = BlockWeights | NDArray[np.float32]


Encode = Callable[[str, int, Linear], Linear]
"""Takes what a weight is for ("q", "down", "head", ...), its layer, and the weight; returns what is
stored."""

_INTEGER_PRODUCT = 4
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


def _nbits_constants(weight: BlockWeights) -> tuple[dict[str, NDArray[Any]], dict[str, int]] | None:
    """Return constants and attributes of a MatMulNBits; None where it has no such grid, or more bits."""
    if weight.bits not in (2, 4, 8) or weight.minima is not None:
        return None
    try:
        inputs, attributes = nbits_inputs(weight)
    except UnsupportedError:
        return None
    return inputs | {"scales": np.asarray(inputs["scales"], np.float32)}, attributes


class _Decoder:
    """Writes one decoder. Values are named by the layer and what they are."""

    def __init__(self, weights: DecoderWeights, positions: int, encode: Encode, in_floats: bool) -> None:
        self._weights, self._config, self._encode = weights, weights.config, encode
        self._in_floats, self._positions = in_floats, positions
        self._orders: dict[tuple[str, bytes], str] = {}
        self._composer = Composer(_OPSET)
        self._tables = self._angles(positions, "")
        self._local_tables = self._angles(positions, "local.") if self._config.local_rotary else self._tables

    def build(self) -> Any:
        composer, config = self._composer, self._config
        composer.input("tokens", "int64", ["batch", "tokens"])
        composer.input("last", "int32", ["batch"])
        composer.input("total", "int32", [])
        composer.input("rows", "int64", ["wanted"])
        composer.input(STATE_ROWS, "int64", ["states"])
        room: list[int | str] = ["batch", config.kv_heads, "room", config.head_size]
        for layer in range(config.layers):
            for name in ("keys", "values"):
                composer.input(f"{name}.{layer}", "float32", room)
        x = self._embed()
        for layer in range(config.layers):
            x = self._block(layer, x)
        self._head(x)
        composer.output("logits", "float32", ["wanted", config.vocabulary])
        composer.output("states", "float32", ["states", config.hidden])
        for layer in range(config.layers):
            for name in ("new_keys", "new_values"):
                composer.output(f"{name}.{layer}", "float32", room)
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
        self._gather("tokens", "embedding", self._embedding)
        if self._config.learned_positions:
            return self._node("Add", ["embedding", self._places()], "embedding.placed")
        if self._config.embedding_scale == 1.0:
            return "embedding"
        return self._number("Mul", "embedding", self._config.embedding_scale, "embedding.scaled")

    def _places(self) -> str:
        """Read the vectors of the tokens' positions: ``last`` is that of the last one."""
        composer, most = self._composer, self._config.context
        if self._positions > most:
            raise QuantValueError(
                "positions",
                str(self._positions),
                f"at most {most}, as the model has vectors for",
                "ask for fewer",
            )
        unit = composer.constant("unit", np.int64(1))
        axis = composer.constant("places.axis", np.array([1]))
        sizes = self._node("Shape", ["tokens"], "tokens.sizes")
        count = self._node("Gather", [sizes, unit], "tokens.count")
        first = self._node("Sub", [unit, count], "places.first")
        offsets = self._node("Range", [first, unit, unit], "places.offsets")
        composer.node("Cast", ["last"], ["last.whole"], name="last.whole", to=7)
        ends = self._node("Unsqueeze", ["last.whole", axis], "places.ends")
        places = self._node("Add", [ends, offsets], "places")
        table = self._weights.linear("positions")
        self._gather(places, "places.vectors", np.asarray(floats_of(table), np.float32)[: self._positions])
        return "places.vectors"

    def _gather(self, index: str, y: str, table: Linear) -> None:
        """Read rows of a table, which keeps its codes."""
        composer = self._composer
        if not isinstance(table, BlockWeights) or table.groups is not None:
            floats = composer.constant(f"{y}.weight", np.asarray(floats_of(table), np.float32))
            composer.node("Gather", [floats, index], [y], name=y)
            return
        nbits = _nbits_constants(table) if table.shape[1] % table.block_size == 0 else None
        if nbits is None:
            self._own_node("BlockGather", index, y, table)
            return
        inputs, attributes = nbits
        arrays = {"codes": inputs["B"].reshape(len(inputs["B"]), -1), "scales": inputs["scales"]}
        if "zero_points" in inputs:
            arrays["zero_points"] = inputs["zero_points"]
        names = [composer.constant(f"{y}.{name}", array) for name, array in arrays.items()]
        composer.node(
            "GatherBlockQuantized", [names[0], index, *names[1:]], [y], name=y, domain=MICROSOFT,
            gather_axis=0, quantize_axis=1, block_size=attributes["block_size"], bits=attributes["bits"],
        )  # fmt: skip

    def _linear(self, x: str, y: str, weight: Linear) -> None:
        """Write ``y = x weight.T``: of codes a MatMulNBits or a BlockLinear that quantizes x as it comes."""
        composer = self._composer
        if not isinstance(weight, BlockWeights):
            matrix = np.ascontiguousarray(np.asarray(weight, np.float32).T)
            composer.node("MatMul", [x, composer.constant(f"{y}.weight", matrix)], [y], name=y)
            return
        plain, order = sort_by_group(weight)
        x = x if order is None else self._reorder(x, order, y)
        in_floats = self._in_floats or not has_exact_sums(plain)
        x_block = 0 if in_floats else activation_block(plain.block_size, plain.shape[1])
        nbits = _nbits_constants(plain) if x_block in (0, plain.block_size) else None
        if nbits is None:
            self._own_node("BlockLinear", x, y, plain, x_block=x_block)
            return
        inputs, attributes = nbits
        names = [composer.constant(f"{y}.{name}", array) for name, array in inputs.items()]
        composer.node(
            "MatMulNBits", [x, *names], [y], name=y, domain=MICROSOFT,
            accuracy_level=_INTEGER_PRODUCT if x_block else 0, **attributes,
        )  # fmt: skip

    def _own_node(self, op_type: str, x: str, y: str, weight: BlockWeights, **numbers: int) -> None:
        """Write a BlockLinear or BlockGather."""
        arrays, attributes = block_inputs(weight)
        last = max(map(BLOCK_INPUTS.index, arrays))
        names = [
            self._composer.constant(f"{y}.{name}", arrays[name]) if name in arrays else ""
            for name in BLOCK_INPUTS[: last + 1]
        ]
        self._composer.node(
            op_type, [x, *names], [y], name=y, domain=BlockLinear.domain, **attributes, **numbers
        )

    def _reorder(self, x: str, order: NDArray[np.int64], y: str) -> str:
        """Put the columns of x in an order, once for all layers that want the same."""
        key = x, order.tobytes()
        if key not in self._orders:
            self._orders[key] = f"{y}.x"
            index = self._composer.constant(f"{y}.order", order)
            self._composer.node("Gather", [x, index], [f"{y}.x"], name=f"{y}.x", axis=-1)
        return self._orders[key]

    def _block(self, layer: int, x: str) -> str:
        rows = self._norm(x, "attention_norm", layer)
        mixed = self._attention(layer, rows)
        if self._config.post_norms:
            mixed = self._norm(mixed, "post_attention_norm", layer)
        x = self._residual(x, mixed, f"{layer}.attended")
        inner = self._mlp(layer, self._norm(x, "mlp_norm", layer))
        if self._config.post_norms:
            inner = self._norm(inner, "post_mlp_norm", layer)
        return self._residual(x, inner, f"{layer}.out")

    def _residual(self, x: str, addend: str, y: str) -> str:
        if self._config.residual_scale != 1.0:
            addend = self._number("Mul", addend, self._config.residual_scale, f"{y}.addend")
        return self._node("Add", [x, addend], y)

    def _attention(self, layer: int, rows: str) -> str:
        config = self._config
        q, k, v = (self._product(role, layer, rows) for role in "qkv")
        if config.qk_norm:
            q, k = (
                self._head_norm(layer, x, f"{role}_norm", heads)
                for x, role, heads in ((q, "q", config.heads), (k, "k", config.kv_heads))
            )
        y, rotates = f"{layer}.mixed", not config.learned_positions and layer not in config.unrotated
        tables = self._local_tables if layer in config.windowed else self._tables
        caches = [f"{name}.{layer}" for name in ("keys", "values")]
        self._composer.node(
            "GroupQueryAttention", [q, k, v, *caches, "last", "total", *(tables if rotates else [])],
            [y, *(f"new_{name}" for name in caches)], name=y, domain=MICROSOFT, num_heads=config.heads,
            kv_num_heads=config.kv_heads, scale=config.attention_scale, do_rotary=int(rotates),
            rotary_interleaved=int(config.interleaved) if rotates else None,
            softcap=config.attention_cap or None,
            local_window_size=config.window if layer in config.windowed else None,
        )  # fmt: skip
        return self._product("o", layer, y)

    def _mlp(self, layer: int, rows: str) -> str:
        is_gated = self._config.is_gated
        bent = self._product("gate" if is_gated else "up", layer, rows)
        inner = self._function(layer, bent)
        if is_gated:
            inner = self._node("Mul", [inner, self._product("up", layer, rows)], f"{layer}.inner")
        return self._product("down", layer, inner)

    def _function(self, layer: int, x: str) -> str:
        """Apply the function of MLPs."""
        kind = self._config.activation
        if kind in ("silu", "quick_gelu"):
            slope = x if kind == "silu" else self._number("Mul", x, 1.702, f"{layer}.slope")
            sigmoid = self._node("Sigmoid", [slope], f"{layer}.sigmoid")
            return self._node("Mul", [x, sigmoid], f"{layer}.{kind}")
        if kind.startswith("gelu"):
            y = f"{layer}.gelu"
            self._composer.node(
                "Gelu", [x], [y], name=y, approximate="tanh" if kind == "gelu_tanh" else "none"
            )
            return y
        if kind == "relu2":
            bent = self._node("Relu", [x], f"{layer}.relu")
            return self._node("Mul", [bent, bent], f"{layer}.relu2")
        return x if kind == "linear" else self._node(_OPERATORS[kind], [x], f"{layer}.{kind}")

    def _head(self, x: str) -> None:
        flat = self._composer.constant("flat", np.array([-1, self._config.hidden]))
        rows = self._node("Reshape", [x, flat], "tokens.flat")
        self._composer.node("Gather", [rows, STATE_ROWS], ["state.rows"], name="state.rows", axis=0)
        self._norm("state.rows", "norm", None, "states")
        self._composer.node("Gather", [rows, "rows"], ["wanted.rows"], name="wanted.rows", axis=0)
        normed = self._norm("wanted.rows", "norm", None)
        config, cap = self._config, self._config.logit_cap
        is_divided = config.logit_divisor != 1.0
        y = "head" if cap or is_divided else "logits"
        weight = self._embedding if config.tied else self._encode("head", 0, self._weights.linear("head"))
        self._linear(normed, y, weight)
        if is_divided:
            y = self._number("Div", y, config.logit_divisor, "head.divided" if cap else "logits")
        if cap:
            bent = self._node("Tanh", [self._number("Div", y, cap, "head.scaled")], "head.tanh")
            self._number("Mul", bent, cap, "logits")

    def _product(self, role: str, layer: int, x: str) -> str:
        y, has_bias = f"{layer}.{role}", self._weights.has_bias(role, layer)
        product = f"{y}.product" if has_bias else y
        self._linear(x, product, self._encode(role, layer, self._weights.linear(role, layer)))
        if has_bias:
            bias = self._composer.constant(f"{y}.bias", self._weights.vector(role, layer, "bias"))
            self._node("Add", [product, bias], y)
        return y

    def _norm(self, x: str, role: str, layer: int | None, y: str = "") -> str:
        y = y or (role if layer is None else f"{layer}.{role}")
        weight = self._weights.vector(role, layer or 0) + np.float32(self._config.norm_offset)
        scale = self._composer.constant(f"{y}.weight", weight)
        if self._config.is_layer_norm:
            bias = self._composer.constant(f"{y}.bias", self._weights.vector(role, layer or 0, "bias"))
            self._composer.node(
                "LayerNormalization", [x, scale, bias], [y], name=y, axis=-1, epsilon=self._config.epsilon
            )
            return y
        self._composer.node(
            "SimplifiedLayerNormalization", [x, scale], [y], name=y, axis=-1, epsilon=self._config.epsilon
        )
        return y

    def _head_norm(self, layer: int, x: str, role: str, heads: int) -> str:
        """Norm each head of x [batch, tokens, heads * size] by itself."""
        apart = self._composer.constant(f"{layer}.{role}.apart", np.array([0, 0, heads, -1]))
        joined = self._composer.constant(f"{layer}.{role}.joined", np.array([0, 0, -1]))
        split = self._node("Reshape", [x, apart], f"{layer}.{role}.heads")
        normed = self._norm(split, role, layer)
        return self._node("Reshape", [normed, joined], f"{layer}.{role}.flat")

    def _number(self, op_type: str, x: str, number: float, y: str) -> str:
        constant = self._composer.constant(f"{y}.number", np.float32(number))
        return self._node(op_type, [x, constant], y)

    def _node(self, op_type: str, inputs: list[str], y: str) -> str:
        self._composer.node(op_type, inputs, [y], name=y)
        return y
