"""Attention, rotary embedding and the cache of keys and values: the layers of transformers.

Source of the formulas: TensorRT 10's operator pages and header (IAttention, IRotaryEmbeddingLayer,
IKVCacheUpdateLayer); rotary embedding is that of Su et al., 2021 (RoFormer).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from intact.errors import QuantValueError
from intact.graph import TypedComposer
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import ITensor
from intact.trt.base.operation_enums import AttentionNormalizationOp, KVCacheMode, LayerType
from intact.trt.base.trt_object import Interface
from intact.trt.layers.base import ILayer, Nodes

QUERY, KEY, VALUE, MASK, SCALE = range(5)
NORMALIZED_TO = (DataType.FP8, DataType.INT8)


class AttentionBoundaryLayer(ILayer):
    """Base of the two layers that bound an attention."""

    _attention: Any = None
    attention = property(lambda self: self._attention)


class IAttentionInputLayer(AttentionBoundaryLayer):
    """The start of an attention. The layer at its end reads its tensors."""

    TYPE = LayerType.ATTENTION_INPUT
    TITLE = "AttentionInput"
    OUTPUTS = 0

    def emit(self, c: TypedComposer) -> None:
        """Write no node, because `IAttentionOutputLayer` reads the tensors."""


class IAttentionOutputLayer(AttentionBoundaryLayer):
    """Computes ``normalize(query @ key^T + mask) @ value``, as its `IAttention` says.

    Shapes: query [batch, heads, s_q, h], key and value [batch, heads / n, s_kv, h]. Each head of key and
    value serves n consecutive heads of the query. A mask is [batch or 1, heads or 1, s_q, s_kv]. A boolean
    mask is true where a place may be attended to; a mask of floats is added to the scores. The output has the
    query's shape.
    """

    TYPE = LayerType.ATTENTION_OUTPUT
    TITLE = "AttentionOutput"

    def check(self) -> list[str]:
        """Return messages about settings that contradict each other."""
        a, tensors = self._attention, [self.get_input(i) for i in range(SCALE + 1)]
        if a.causal and a.mask is not None:
            return ["an attention is causal or has a mask, not both"]
        if any(tensor is None or len(tensor.shape) != 4 for tensor in tensors[:MASK]):
            return ["query, key and value must have 4 dimensions: batch, heads, sequence, size of a head"]
        heads = [t.shape[1] for t in tensors[:MASK] if t is not None]
        if heads[KEY] != heads[VALUE] or -1 in heads or heads[QUERY] % heads[KEY]:
            return [f"{heads[QUERY]} heads of the query do not share {heads[KEY]} and {heads[VALUE]} others"]
        if (a.normalization_quantize_scale is None) != (a.normalization_quantize_to_type is None):
            return ["quantization of the normalization needs normalization_quantize_scale and _to_type"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, a, x = Nodes(c, self.name), self._attention, [*x, "", ""][: SCALE + 1]
        key, value = (self._expand_heads(n, x[i], i) for i in (KEY, VALUE))
        scores = n("MatMul", x[QUERY], n("Transpose", key, perm=[0, 1, 3, 2]))
        if x[MASK]:
            scores = self._apply_mask(n, scores, x[MASK])
        elif a.causal:
            scores = self._hide_scores(n, scores, self._causal_mask(n, scores))
        if a.norm_op is AttentionNormalizationOp.SOFTMAX:
            scores = n("Softmax", scores, axis=-1)
        if x[SCALE]:
            scale = n.scalar(x[SCALE])
            zero = n.array(np.zeros((), a.normalization_quantize_to_type.numpy))
            scores = n("DequantizeLinear", n("QuantizeLinear", scores, scale, zero), scale, zero)
        n("MatMul", scores, value, to=y[0])

    def _expand_heads(self, n: Nodes, name: str, index: int) -> str:
        """Repeat the heads of key or value, so that they are as many as the query's."""
        query, own = self.get_input(QUERY), self.get_input(index)
        assert query is not None and own is not None  # checked before
        heads, times = query.shape[1], query.shape[1] // own.shape[1]
        if times == 1:
            return name
        repeated = n("Expand", n("Unsqueeze", name, n.ints(2)), n.ints(1, 1, times, 1, 1))
        return n("Reshape", repeated, n.ints(0, heads, -1, own.shape[3]))

    def _apply_mask(self, n: Nodes, scores: str, mask: str) -> str:
        tensor = self.get_input(MASK)
        if tensor is not None and tensor.dtype is DataType.BOOL:
            return self._hide_scores(n, scores, mask)
        return n("Add", scores, mask)

    def _hide_scores(self, n: Nodes, scores: str, visible: str) -> str:
        return n("Where", visible, scores, n.array(np.float32(np.finfo(np.float32).min)))

    def _causal_mask(self, n: Nodes, scores: str) -> str:
        """Return [s_q, s_kv]: whether a key's place is not behind the query's, both counted from the
        first.
        """
        places = [
            n("Range", n.ints(0, shape=()), n.scalar(n.size(scores, i)), n.ints(1, shape=())) for i in (2, 3)
        ]
        return n("GreaterOrEqual", n("Unsqueeze", places[0], n.ints(1)), places[1])


class IAttention(Interface):
    """An attention; get one from ``INetworkDefinition.add_attention``.

    Attributes:
        norm_op: What scores are normalized by. They are not divided by anything: scale the query.
        causal: Whether each place sees only those up to its own.
        mask: Who is seen, or what is added to the scores.
        normalization_quantize_scale, normalization_quantize_to_type: The grid that normalized scores are
            rounded to; both or none.
        decomposable, metadata, num_ranks: Kept.
    """

    norm_op = AttentionNormalizationOp.SOFTMAX
    causal: bool = False
    decomposable: bool = False
    metadata: str = ""
    num_ranks: int = 1
    _to_type: DataType | None = None

    def __init__(self, inputs: list[IAttentionInputLayer], output: IAttentionOutputLayer) -> None:
        self._inputs, self._output, self._logger = inputs, output, output._logger
        for layer in (*inputs, output):
            layer._attention = self

    def __setattr__(self, key: str, value: Any) -> None:
        super().__setattr__(key, value)
        if "_output" in self.__dict__:
            self._output._network.touch()

    @property
    def name(self) -> str:
        """Its name, which errors show."""
        return self._output.name

    @name.setter
    def name(self, name: str) -> None:
        self._output.name = name

    @property
    def mask(self) -> ITensor | None:
        """Mask: booleans of the keys that are visible, or floats that are added to the scores."""
        return self._output.get_input(MASK)

    @mask.setter
    def mask(self, tensor: ITensor) -> None:
        self._output.set_input(MASK, tensor)

    @property
    def normalization_quantize_scale(self) -> ITensor | None:
        """One number."""
        return self._output.get_input(SCALE)

    @normalization_quantize_scale.setter
    def normalization_quantize_scale(self, tensor: ITensor) -> None:
        self._output.set_input(SCALE, tensor)

    @property
    def normalization_quantize_to_type(self) -> DataType | None:
        """FP8 or INT8; None where normalized scores are not quantized."""
        return self._to_type

    @normalization_quantize_to_type.setter
    def normalization_quantize_to_type(self, dtype: DataType) -> None:
        if dtype not in NORMALIZED_TO:
            raise QuantValueError(
                f"attention '{self.name}'", f"normalization_quantize_to_type {dtype}", "FP8 or INT8",
                "choose one of the two",
            )  # fmt: skip
        self._to_type = DataType(dtype)

    @property
    def num_inputs(self) -> int:
        """Number of its inputs, counting up to the last that is there."""
        return self._output.num_inputs

    @property
    def num_outputs(self) -> int:
        """One."""
        return self._output.num_outputs

    def get_input(self, index: int) -> ITensor | None:
        """Query, key, value, mask, scale of the normalization; None where there is none."""
        return self._output.get_input(index)

    def set_input(self, index: int, tensor: ITensor) -> None:
        """Wire query (0), key (1) or value (2) to `tensor`."""
        self._output.set_input(index, tensor)
        if index < MASK:
            layer, place = self._inputs[index // VALUE], index % VALUE
            layer.set_input(place, tensor)

    def get_output(self, index: int) -> ITensor | None:
        """Return output 0; None for others."""
        return self._output.get_output(index)


class IRotaryEmbeddingLayer(ILayer):
    """Turns pairs of elements of each head by the angle of their place.

    Inputs: [batch, heads, s, h]; cosines and sines [batch, s, r / 2], or [places, r / 2] with input 3, the
    places [batch, s], which says which rows. r is `rotary_embedding_dim`, or h where that is 0.

    Attributes:
        interleaved: Whether a pair is two neighbours; else it is element i and element i + r / 2.
        rotary_embedding_dim: As many first elements are turned, the others stay; 0: all.
    """

    TYPE = LayerType.ROTARY_EMBEDDING
    TITLE = "RotaryEmbedding"
    interleaved: bool = False
    rotary_embedding_dim: int = 0

    def check(self) -> list[str]:
        """Check that heads hold pairs."""
        data = self.get_input(0)
        if data is None or len(data.shape) != 4:
            return ["the input must have 4 dimensions: batch, heads, sequence, size of a head"]
        size, turned = data.shape[3], int(self.rotary_embedding_dim) or data.shape[3]
        if size < 0 or turned % 2 or turned > size:
            return [f"{turned} elements of {size} are no pairs to turn"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, data = Nodes(c, self.name), self.get_input(0)
        assert data is not None  # checked before
        size, turned = data.shape[3], int(self.rotary_embedding_dim) or data.shape[3]
        cosine, sine = (self._rows(n, name, x[3] if len(x) > 3 else "") for name in x[1:3])
        whole = x[0] if turned == size else n("Slice", x[0], n.ints(0), n.ints(turned), n.ints(3))
        first, second = self._pairs(n, whole, turned)
        turned_parts = [
            n("Sub", n("Mul", first, cosine), n("Mul", second, sine)),
            n("Add", n("Mul", second, cosine), n("Mul", first, sine)),
        ]
        if self.interleaved:
            pairs = n("Concat", *(n("Unsqueeze", part, n.ints(4)) for part in turned_parts), axis=4)
            turned_parts = [n("Reshape", pairs, n.ints(0, 0, 0, turned))]
        if turned < size:
            turned_parts.append(n("Slice", x[0], n.ints(turned), n.ints(size), n.ints(3)))
        n("Concat", *turned_parts, to=y[0], axis=3)

    def _rows(self, n: Nodes, table: str, places: str) -> str:
        rows = n("Gather", table, places, axis=0) if places else table
        return n("Unsqueeze", rows, n.ints(1))

    def _pairs(self, n: Nodes, x: str, turned: int) -> list[str]:
        if self.interleaved:
            pairs = n("Reshape", x, n.ints(0, 0, 0, turned // 2, 2))
            return [n("Gather", pairs, n.ints(i, shape=()), axis=4) for i in (0, 1)]
        return [n("Slice", x, n.ints(i), n.ints(i + turned // 2), n.ints(3)) for i in (0, turned // 2)]


class IKVCacheUpdateLayer(ILayer):
    """Writes new rows into the cache: ``output[i, :, w[i] + s, :] = update[i, :, s, :]``.

    Inputs: the cache [batch, heads, places, h], an input of the network; the update [batch, heads, s, h]; the
    first place w [batch] of each sequence. The engine writes the output where the cache lies.

    Attributes:
        cache_mode: LINEAR, as above.
    """

    TYPE = LayerType.KV_CACHE_UPDATE
    TITLE = "KVCacheUpdate"
    cache_mode = KVCacheMode.LINEAR

    def check(self) -> list[str]:
        """Check that the cache is an input, whose memory the output takes."""
        cache = self.get_input(0)
        if cache is None or not cache.is_network_input:
            return ["the cache must be an input of the network: its memory is written in place"]
        return [] if self.cache_mode is KVCacheMode.LINEAR else [f"cache_mode {self.cache_mode}"]

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        rows = n("Range", n.ints(0, shape=()), n.scalar(n.size(x[1], 2)), n.ints(1, shape=()))
        start = n("Reshape", n.cast(x[2], "int64"), n.ints(-1, 1, 1, 1))
        places = n("Add", start, n("Reshape", rows, n.ints(1, 1, -1, 1)))
        n("ScatterElements", x[0], n("Expand", places, n.sizes(x[1])), x[1], to=y[0], axis=2)
