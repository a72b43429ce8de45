"""Shapes and types of the outputs of ONNX Runtime's operators, and of INTact's, from those of their inputs.
`RULES` has one function for each operator, by ONNX Runtime's docs/ContribOperators.md. A size that is not
known is None; where nothing is known of an input, nothing is said of what depends on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from intact.graph.ops import MICROSOFT, BlockLinear, NarrowGroupQueryAttention
from intact.numerics import SCALE_BYTES

Dim = int | str | None
Sizes = tuple[Dim, ...]
_T = onnx.TensorProto


@dataclass(frozen=True)
class InferenceNode:
    """The inputs and attributes of a node, as ONNX's inference describes them.

    Attributes:
        context: ONNX's.
    """

    context: Any

    def input(self, at: int) -> Info:
        """Return what is known of an input; nothing of one that is left out."""
        if at >= self.context.get_num_inputs() or not self.context.has_input(at):
            return _NOTHING
        declared = self.context.get_input_type(at)
        if declared is None or not declared.HasField("tensor_type"):
            return Info(0, None, True)
        tensor = declared.tensor_type
        sizes = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
        return Info(int(tensor.elem_type), sizes, True)

    @property
    def inputs(self) -> list[Info]:
        """Return all inputs."""
        return [self.input(at) for at in range(self.context.get_num_inputs())]

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute."""
        attribute = self.context.get_attribute(name)
        return default if attribute is None else int(attribute.i)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute; () where it is left out."""
        attribute = self.context.get_attribute(name)
        return () if attribute is None else tuple(attribute.ints)

    def text(self, name: str) -> str:
        """Return an attribute; "" where it is left out."""
        attribute = self.context.get_attribute(name)
        return "" if attribute is None else attribute.s.decode("utf-8", "replace")


@dataclass(frozen=True)
class Info:
    """Describes what is known of an input or output.

    Attributes:
        dtype: ONNX's element type; 0: not known.
        sizes: None: not even the rank is known.
        exists: The node has it.
    """

    dtype: int
    sizes: Sizes | None
    exists: bool = True

    def size(self, axis: int) -> Dim:
        """Return the size of an axis; None where it is not known."""
        sizes = self.sizes or ()
        return sizes[axis] if -len(sizes) <= axis < len(sizes) else None

    @property
    def rank(self) -> int | None:
        """Return the number of axes."""
        return None if self.sizes is None else len(self.sizes)


_NOTHING = Info(0, None, False)
Outputs = Sequence[Info | None]
Rule = Callable[[InferenceNode], Outputs]


def _size(dim: Any) -> Dim:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def _multiply(size: Dim, factor: int) -> Dim:
    return size * factor if isinstance(size, int) and factor > 0 else None


def _divide(size: Dim, by: int) -> Dim:
    return size // by if isinstance(size, int) and by > 0 else None


def _split_heads(size: Dim, heads: int, what: str = "heads") -> Dim:
    """Return the size of a head.

    Raises:
        ValueError: Heads do not divide the size, or are empty.
    """
    if heads < 1 or (isinstance(size, int) and (size % heads or not size)):
        raise ValueError(f"{size} elements do not make {heads} {what}")
    return _divide(size, heads)


def _sum_sizes(*sizes: Dim) -> Dim:
    """Return the sum of sizes; the one that is no 0, where the others are."""
    rest = [size for size in sizes if size != 0]
    numbers = [size for size in rest if isinstance(size, int)]
    if len(numbers) == len(rest):
        return sum(numbers)
    return rest[0] if len(rest) == 1 else None


def _like(at: int, typed: int | None = None) -> Rule:
    """Return the rule of an output with the shape of input `at`, and the type of input `typed`."""

    def rule(node: InferenceNode) -> Outputs:
        x = node.input(at)
        return [x if typed is None else Info(node.input(typed).dtype, x.sizes)]

    return rule


# -- normalizations


def _skip_norm_outputs(node: InferenceNode) -> Outputs:
    """Describe a normalized sum, its mean and deviation, and the sum."""
    x = node.input(0)
    rows = Info(_T.FLOAT, None if x.sizes is None else (*x.sizes[:-1], 1))
    return [x, rows, rows, x]


def _norm_outputs(node: InferenceNode) -> Outputs:
    """Describe a normalized tensor, and the inverse deviation of each row."""
    x, axis = node.input(0), node.integer("axis", -1)
    rank = x.rank or 0
    if x.sizes is None or not -rank <= axis < rank:
        return [x]
    return [x, Info(_T.FLOAT, (*x.sizes[: axis % rank], *[1] * (rank - axis % rank)))]


def _embedding_outputs(node: InferenceNode) -> Outputs:
    """Describe normalized embeddings, lengths, and the embeddings."""
    words, table = node.input(0), node.input(2)
    embedded = Info(table.dtype, (words.size(0), words.size(1), table.size(1)))
    return [embedded, Info(_T.INT32, (words.size(0),)), embedded]


# -- attention


def _self_attention(past: int, typed: int) -> Rule:
    """Return the rule of a self-attention with its projections; keys and values come stacked."""

    def rule(node: InferenceNode) -> Outputs:
        x, weight, bias, cache = (node.input(at) for at in (0, 1, 2, past))
        columns = weight.size(1) if weight.exists else bias.size(0)
        widths = node.integers("qkv_hidden_sizes")
        width: Dim = widths[2] if len(widths) == 3 else _divide(columns, 3)
        batch, length, heads = x.size(0), x.size(1), node.integer("num_heads")
        dtype = node.input(typed).dtype
        room = _sum_sizes(length, cache.size(3)) if cache.exists else length
        each = _split_heads(width, heads)
        size = cache.size(4) if cache.exists else each
        return [Info(dtype, (batch, length, width)), Info(dtype, (2, batch, heads, room, size))]

    return rule


def _multi_head(node: InferenceNode) -> Outputs:
    """Describe the result, keys, values, and scores; inputs may be packed, and have heads apart."""
    q, k, v, past = (node.input(at) for at in (0, 1, 2, 6))
    heads, batch, length = node.integer("num_heads"), q.size(0), q.size(1)
    wide = q.size(2) if q.rank == 3 else _multiply(q.size(4), heads)
    size = _split_heads(wide, heads)
    value_wide = wide
    if v.rank == 3:
        value_wide = v.size(2)
    elif v.rank == 4:
        value_wide = _multiply(v.size(3), heads)
    new = length if not k.exists else k.size(2) if k.rank == 4 else k.size(1)
    room = _sum_sizes(new, past.size(2)) if past.exists else new
    caches = [Info(q.dtype, (batch, heads, room, each)) for each in (size, _split_heads(value_wide, heads))]
    return [
        Info(q.dtype, (batch, length, value_wide)), *caches, Info(q.dtype, (batch, heads, length, room))
    ]  # fmt: skip


def _group_query(node: InferenceNode) -> Outputs:
    """Describe the result, keys and values, which are as long as the longest row; and scores."""
    q, k, keys, values = (node.input(at) for at in (0, 1, 3, 4))
    heads, kv_heads = node.integer("num_heads"), node.integer("kv_num_heads")
    batch, length, wide = q.size(0), q.size(1), q.size(2)
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{heads} heads of queries for {kv_heads} of keys")
    size = _split_heads(wide, heads if k.exists else heads + 2 * kv_heads)
    attention = Info(q.dtype, (batch, length, wide if k.exists else _multiply(size, heads)))
    caches = [_cache_behind(past, (batch, kv_heads, length, size), q) for past in (keys, values)]
    return [attention, *caches, Info(q.dtype, (batch, heads, length, None))]


def _cache_behind(past: Info, new: Sizes, q: Info) -> Info:
    """Return the cache of keys or values to which new ones came."""
    if not past.exists:
        return Info(q.dtype, new)
    size = new[3]
    if past.dtype == _T.INT8 and isinstance(size, int):  # INTact's own, with a scale behind each row
        size += SCALE_BYTES
    return Info(past.dtype, (past.size(0) or new[0], past.size(1) or new[1], None, past.size(3) or size))


def _rotate_outputs(node: InferenceNode) -> Outputs:
    """Describe rotated heads.

    Raises:
        ValueError: Heads are narrower than the tables: ONNX Runtime's operator reads behind them. Or tables
            are empty: it divides by their width.
    """
    x, pairs, heads = node.input(0), node.input(2).size(1), node.integer("num_heads")
    wide = x.size(-1) if pairs else 0
    if x.rank == 3 and isinstance(wide, int):
        wide = wide // heads if heads else wide
    if isinstance(wide, int) and isinstance(pairs, int) and (wide < 2 * pairs or not wide):
        raise ValueError(f"heads of {wide} elements for tables of {pairs} pairs")
    return [x]


# -- products


def _broadcast(a: Sizes, b: Sizes) -> Sizes:
    """Return the sizes of two tensors together, as NumPy broadcasts them."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(_broadcast_size(x, y) for x, y in pairs)


def _broadcast_size(x: Dim, y: Dim) -> Dim:
    if x == 1 or x == y:
        return y
    if y == 1:
        return x
    return next((size for size in (x, y) if isinstance(size, int)), None)


def _matmul_sizes(a: Sizes | None, b: Sizes | None) -> Sizes | None:
    if not a or not b:
        return None
    rows, columns = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    inner = rows[-1], columns[-2]
    if inner[0] != inner[1] and all(isinstance(size, int) for size in inner):
        raise ValueError(f"Incompatible dimensions for matrix multiplication: {inner[0]} and {inner[1]}")
    sizes = [*_broadcast(rows[:-2], columns[:-2])]
    return tuple(sizes + ([] if len(a) == 1 else [rows[-2]]) + ([] if len(b) == 1 else [columns[-1]]))


def _product(dtype: Callable[[InferenceNode], int], at: tuple[int, int] = (0, 1)) -> Rule:
    """Return the rule of a product of two inputs."""
    return lambda node: [Info(dtype(node), _matmul_sizes(node.input(at[0]).sizes, node.input(at[1]).sizes))]


def _matmul_outputs(node: InferenceNode) -> Outputs:
    """Describe a product of matrices that may be transposed."""
    sides = []
    for at, name in enumerate("AB"):
        sizes = node.input(at).sizes
        if sizes and len(sizes) > 1 and node.integer(f"transBatch{name}"):
            sizes = (*sizes[1:-1], sizes[0], sizes[-1])
        if sizes and len(sizes) > 1 and node.integer(f"trans{name}"):
            sizes = (*sizes[:-2], sizes[-1], sizes[-2])
        sides.append(sizes)
    return [Info(node.input(0).dtype, _matmul_sizes(*sides))]


def _gemm(at: tuple[int, int], dtype: Callable[[InferenceNode], int]) -> Rule:
    """Return the rule of a Gemm of two inputs."""

    def rule(node: InferenceNode) -> Outputs:
        a, b = (node.input(each) for each in at)
        rows, columns = a.size(1 if node.integer("transA") else 0), b.size(0 if node.integer("transB") else 1)
        return [Info(dtype(node), (rows, columns))]

    return rule


def _block_product(node: InferenceNode) -> Outputs:
    """Describe rows of K elements by weights [N, K] in blocks."""
    x, inner, outer = node.input(0), node.integer("K"), node.integer("N")
    if x.sizes is None or min(inner, outer) < 1:
        return [Info(x.dtype, None)]
    return [Info(x.dtype, _matmul_sizes(x.sizes, (inner, outer)))]


def _own_block_product(node: InferenceNode) -> Outputs:
    """Describe rows of K elements by INTact's weights, of which the codes say how many rows they make."""
    x, codes, inner = node.input(0), node.input(1), node.integer("K")
    if x.sizes is None or codes.rank != 2 or inner < 1:
        return [Info(x.dtype, None)]
    return [Info(x.dtype, _matmul_sizes(x.sizes, (inner, codes.size(0))))]


def _rows_of_blocks(node: InferenceNode) -> Outputs:
    """Describe rows of K elements of INTact's tables."""
    index, inner = node.input(0), node.integer("K")
    return [Info(_T.FLOAT, None if index.sizes is None or inner < 1 else (*index.sizes, inner))]


def _block_gather_outputs(node: InferenceNode) -> Outputs:
    """Describe parts of a table of codes, uint8 ones packed along the last axis, of its scales' type."""
    table, index, scales = (node.input(at) for at in range(3))
    axis, rank = node.integer("gather_axis"), table.rank or 0
    if not table.sizes or index.sizes is None or not -rank <= axis < rank:
        return [Info(scales.dtype, None)]
    sizes = list(table.sizes)
    if table.dtype == _T.UINT8:
        sizes[-1] = _multiply(sizes[-1], 8 // max(1, min(8, node.integer("bits", 4))))
    axis %= rank
    return [Info(scales.dtype, (*sizes[:axis], *index.sizes, *sizes[axis + 1 :]))]


def _lstm(node: InferenceNode) -> Outputs:
    """Describe all states, the last ones, and the last cells."""
    x, hidden = node.input(0), node.integer("hidden_size") or None
    directions = 2 if node.text("direction") == "bidirectional" else 1
    last = Info(x.dtype, (directions, x.size(1), hidden))
    return [Info(x.dtype, (x.size(0), directions, x.size(1), hidden)), last, last]


# -- codes and images


def _binary(a: int, b: int) -> Rule:
    """Return the rule of an operator element by element of two inputs."""

    def rule(node: InferenceNode) -> Outputs:
        x, y = node.input(a), node.input(b)
        sizes = None if x.sizes is None or y.sizes is None else _broadcast(x.sizes, y.sizes)
        return [Info(x.dtype, sizes)]

    return rule


def _where_outputs(node: InferenceNode) -> Outputs:
    """Describe elements of two inputs, as a third one chooses them."""
    parts = [node.input(at).sizes for at in (0, 1, 4)]
    sizes: Sizes | None = ()
    for part in parts:
        sizes = None if sizes is None or part is None else _broadcast(sizes, part)
    return [Info(node.input(1).dtype, sizes)]


def _concat(node: InferenceNode) -> Outputs:
    """Describe joined tensors; behind the grid of the result each stands with its own."""
    parts, axis = node.inputs[2::3], node.integer("axis")
    first = parts[0] if parts else _NOTHING
    rank = first.rank or 0
    if not first.sizes or not -rank <= axis < rank or any(part.rank != rank for part in parts):
        return [Info(node.input(1).dtype, None)]
    sizes = list(first.sizes)
    sizes[axis] = _sum_sizes(*(part.size(axis) for part in parts))
    return [Info(node.input(1).dtype, tuple(sizes))]


def _global_pool(node: InferenceNode) -> Outputs:
    """Describe an image of one pixel."""
    x = node.input(0)
    if not x.sizes or len(x.sizes) < 3:
        return [x if x.sizes is None else Info(x.dtype, None)]
    ones = (1,) * (len(x.sizes) - 2)
    last = bool(node.integer("channels_last"))
    return [Info(x.dtype, (x.sizes[0], *ones, x.sizes[-1]) if last else (*x.sizes[:2], *ones))]


def _windows(node: InferenceNode, size: Dim, axis: int, axes: int, kernel: int) -> Dim:
    """Return how often a window fits along one of `axes` axes."""
    strides, dilations, pads = node.integers("strides"), node.integers("dilations"), node.integers("pads")
    stride = strides[axis] if len(strides) == axes else 1
    dilation = dilations[axis] if len(dilations) == axes else 1
    if not isinstance(size, int) or min(stride, dilation, kernel) < 1:
        return None
    if node.text("auto_pad") in ("SAME_UPPER", "SAME_LOWER"):
        return -(-size // stride)
    padded = size + (pads[axis] + pads[axes + axis] if len(pads) == 2 * axes else 0)
    room = padded - (kernel - 1) * dilation - 1
    return max(0, (-(-room // stride) if node.integer("ceil_mode") else room // stride) + 1)


def _window_rule(channels_last: bool | None, weight: int | None) -> Rule:
    """Return the rule of a pool, or of a convolution whose weight is that input; None: an attribute says."""

    def rule(node: InferenceNode) -> Outputs:
        x = node.input(0)
        if not x.sizes or len(x.sizes) < 3:
            return [Info(x.dtype, None)]
        axes, last = len(x.sizes) - 2, channels_last
        if last is None:
            last = bool(node.integer("channels_last"))
        image = x.sizes[1:-1] if last else x.sizes[2:]
        kernel: Sequence[Dim] = node.integers("kernel_shape")
        w = None if weight is None else node.input(weight)
        if not kernel and w is not None and w.rank == len(x.sizes):
            kernel = (w.sizes or ())[2:]
        windows: list[Dim] = [None] * axes
        if len(kernel) == axes and all(isinstance(k, int) for k in kernel):
            windows = [_windows(node, image[i], i, axes, int(k or 0)) for i, k in enumerate(kernel)]
        channels = x.size(-1 if last else 1) if w is None else w.size(0)
        return [Info(x.dtype, (x.sizes[0], *windows, channels) if last else (x.sizes[0], channels, *windows))]

    return rule


def _type(at: int) -> Callable[[InferenceNode], int]:
    return lambda node: node.input(at).dtype


def _float(node: InferenceNode) -> int:
    return int(_T.FLOAT)


def _codes_or_floats(node: InferenceNode) -> int:
    """Return the type of the zero point of the output of a QGemm; without one it makes floats."""
    zero = node.input(8)
    return zero.dtype if zero.exists else int(_T.FLOAT)


def _quantize_outputs(node: InferenceNode) -> Outputs:
    """Describe codes of the type of their zero point."""
    x, zero = node.input(0), node.input(2)
    return [Info(zero.dtype if zero.exists else int(_T.UINT8), x.sizes)]


_RUNTIME: dict[str, Rule] = {
    "Attention": _self_attention(4, 0), "BiasGelu": _like(0), "DequantizeLinear": _like(0, 1),
    "DynamicQuantizeLSTM": _lstm, "DynamicQuantizeMatMul": _product(_float),
    "EmbedLayerNormalization": _embedding_outputs, "FastGelu": _like(0), "FusedConv": _window_rule(False, 1),
    "FusedGemm": _gemm((0, 1), _type(0)), "FusedMatMul": _matmul_outputs,
    "GatherBlockQuantized": _block_gather_outputs, "Gelu": _like(0), "GroupQueryAttention": _group_query,
    "MatMulBnb4": _block_product, "MatMulInteger16": _product(lambda node: int(_T.INT32)),
    "MatMulIntegerToFloat": _product(_type(2)), "MatMulNBits": _block_product, "MoE": _like(0),
    "MultiHeadAttention": _multi_head, "NhwcMaxPool": _window_rule(True, None),
    "QAttention": _self_attention(8, 3), "QGemm": _gemm((0, 3), _codes_or_floats),
    "QLinearAdd": _binary(0, 3), "QLinearAveragePool": _window_rule(None, None), "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _global_pool, "QLinearLeakyRelu": _like(0), "QLinearMul": _binary(0, 3),
    "QLinearSigmoid": _like(0), "QLinearSoftmax": _like(0), "QLinearWhere": _where_outputs, "QMoE": _like(0),
    "QuantizeLinear": _quantize_outputs, "QuickGelu": _like(0), "RotaryEmbedding": _rotate_outputs,
    "SimplifiedLayerNormalization": _norm_outputs, "SkipLayerNormalization": _skip_norm_outputs,
    "SkipSimplifiedLayerNormalization": _skip_norm_outputs,
}  # fmt: skip

_ON_CODES = ("Q", "Dequantize", "DynamicQuantize", "MatMulInteger")
"""Beginnings of the names of operators on codes."""


def _refuse_empty(op_type: str, rule: Rule) -> Rule:
    """Return the rule of an operator, which refuses inputs whose elements ONNX Runtime's reads unasked, or by
    whose sizes it divides: scales and zero points, and what stands empty beside rows; a past may be empty.
    """
    reads_scales = op_type.startswith(_ON_CODES)

    def is_refused(sizes: Sizes, rows: Sizes) -> bool:
        if reads_scales:
            return sizes == (0,)
        is_past = len(sizes) > 3 and 0 not in (*sizes[:-2], sizes[-1])
        return 0 in sizes and 0 not in rows and not is_past

    def outputs(node: InferenceNode) -> Outputs:
        sizes = [value.sizes or () for value in node.inputs]
        if empty := [at for at, each in enumerate(sizes) if is_refused(each, sizes[0])]:
            raise ValueError(f"input {empty[0]} has no elements")
        return rule(node)

    return outputs


RULES: dict[tuple[str, str], Rule] = {
    **{(MICROSOFT, op_type): _refuse_empty(op_type, rule) for op_type, rule in _RUNTIME.items()},
    (NarrowGroupQueryAttention.domain, "GroupQueryAttention"): _group_query,
    (BlockLinear.domain, "BlockGather"): _rows_of_blocks,
    (BlockLinear.domain, "BlockLinear"): _own_block_product,
    ("", "GroupNormalization"): _like(0), ("", "MeanVarianceNormalization"): _like(0),
    ("", "SimplifiedLayerNormalization"): _norm_outputs, ("", "Swish"): _like(0),
}  # fmt: skip
"""By domain and operator."""
