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
from intact.trt.base.operation_enums import (
    AttentionIOForm,
    AttentionNormalizationOp,
    CausalMaskKind,
    KVCacheMode,
    LayerType,
)
from intact.trt.base.trt_object import Interface
from intact.trt.layers.attention_forms import (
    Tokens,
    causal_keys,
    count_up,
    flatten,
    restore_form,
    tokens_of_packed,
    tokens_of_padded,
    visible_keys,
)
from intact.trt.layers.base import ILayer, Nodes

QUERY, KEY, VALUE, MASK, SCALE, QUERY_LENGTHS, KEY_LENGTHS = range(7)
PADDED, PACKED = AttentionIOForm.PADDED_BHND, AttentionIOForm.PACKED_NHD
RANKS = {PADDED: 4, PACKED: 3}
NORMALIZED_TO = (DataType.FP8, DataType.INT8)


class IAttentionBoundaryLayer(ILayer):
    """Base of the two layers that bound an attention."""

    _attention: Any = None
    attention = property(lambda self: self._attention)


class IAttentionInputLayer(IAttentionBoundaryLayer):
    """The start of an attention: all its inputs, and one output that the layer at its end reads.

    Inputs: query, key, value; behind them what `IAttention` has as properties.
    """

    TYPE = LayerType.ATTENTION_INPUT
    TITLE = "AttentionInput"

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        """Write the query, which gives the output its size: `IAttentionOutputLayer` reads the inputs."""
        c.node("Identity", x[:1], y, name=self.name)


class IAttentionOutputLayer(IAttentionBoundaryLayer):
    """Computes ``normalize(query @ key^T + mask) @ value``, as its `IAttention` says.

    Shapes: query [batch, heads, s_q, h], key and value [batch, heads / n, s_kv, h]; in packed form
    [tokens, heads, h]. Each head of key and value serves n consecutive heads of the query. A mask is [batch
    or 1, heads or 1, s_q, s_kv]. A boolean mask is true where a place may be attended to; a mask of floats is
    added to the scores. The output has the query's shape.
    """

    TYPE = LayerType.ATTENTION_OUTPUT
    TITLE = "AttentionOutput"

    def check(self) -> list[str]:
        """Return messages about settings that contradict each other."""
        a = self._attention
        tensors = [a.get_input(i) for i in range(KEY_LENGTHS + 1)]
        forms = (a.query_form, a.key_value_form, a.key_value_form)
        if a.causal_kind is not CausalMaskKind.NONE and a.mask is not None:
            return ["an attention is causal or has a mask, not both"]
        if errors := self._length_errors():
            return errors
        for tensor, form in zip(tensors, forms, strict=False):
            if tensor is None or len(tensor.shape) != RANKS[form]:
                return [
                    "query, key and value must have 4 dimensions: batch, heads, sequence, size of a head; or "
                    "3 in the form PACKED_NHD: tokens, heads, size of a head"
                ]
        heads = [t.shape[1] for t in tensors[:MASK] if t is not None]
        if heads[KEY] != heads[VALUE] or -1 in heads or heads[QUERY] % heads[KEY]:
            return [f"{heads[QUERY]} heads of the query do not share {heads[KEY]} and {heads[VALUE]} others"]
        if (a.normalization_quantize_scale is None) != (a.normalization_quantize_to_type is None):
            return ["quantization of the normalization needs normalization_quantize_scale and _to_type"]
        return []

    def _length_errors(self) -> list[str]:
        a = self._attention
        for form, lengths in ((a.query_form, "query_lengths"), (a.key_value_form, "key_value_lengths")):
            tensor = getattr(a, lengths)
            if form is PACKED and tensor is None:
                return [f"the form PACKED_NHD needs {lengths}"]
            if tensor is not None and (tensor.dtype is not DataType.INT32 or len(tensor.shape) != 1):
                return [f"{lengths} must be a vector of INT32"]
        if a.mask is not None and PACKED in (a.query_form, a.key_value_form):
            return ["a mask needs the form PADDED_BHND of query, key and value"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, a = Nodes(c, self.name), self._attention
        tensors = [a.get_input(i) for i in range(KEY_LENGTHS + 1)]
        x = ["" if tensor is None else tensor.name for tensor in tensors]
        if PACKED not in (a.query_form, a.key_value_form):
            self._emit_products(n, x, self._padded_visible(n, x), y[0])
            return
        query, key = (self._tokens(n, x, which) for which in (QUERY, KEY))
        forms = (a.query_form, a.key_value_form, a.key_value_form)
        flat = [
            flatten(n, name, form, tensor.shape[-1])
            for name, form, tensor in zip(x, forms, tensors, strict=False)
            if tensor is not None
        ]
        visible = visible_keys(n, query, key, a.causal_kind)
        output = c.fresh(f"{self.name}.flat")
        self._emit_products(n, [*flat, *x[MASK:]], visible, output)
        restore_form(n, output, a.query_form, x[QUERY], y[0])

    def _tokens(self, n: Nodes, x: list[str], which: int) -> Tokens:
        packed = (self._attention.query_form if which == QUERY else self._attention.key_value_form) is PACKED
        lengths = x[QUERY_LENGTHS if which == QUERY else KEY_LENGTHS]
        if packed:
            return tokens_of_packed(n, n.scalar(n.size(x[which], 0)), lengths)
        batch, size = (n.scalar(n.size(x[which], axis)) for axis in (0, 2))
        return tokens_of_padded(n, batch, size, "" if which == QUERY else lengths)

    def _padded_visible(self, n: Nodes, x: list[str]) -> str:
        """Return [s_q, s_kv], or one for each sequence: which keys are visible; "" where all are."""
        a = self._attention
        if not x[KEY_LENGTHS] and a.causal_kind is CausalMaskKind.NONE:
            return ""
        sizes = [n.scalar(n.size(x[which], 2)) for which in (QUERY, KEY)]
        length = n("Reshape", n.cast(x[KEY_LENGTHS], "int64"), n.ints(-1, 1, 1, 1)) if x[KEY_LENGTHS] else ""
        rows = Tokens("", n("Unsqueeze", count_up(n, sizes[0]), n.ints(1)), sizes[0])
        key = Tokens("", count_up(n, sizes[1]), length or sizes[1])
        parts = [n("Less", key.position, length)] if length else []
        parts += [causal] if (causal := causal_keys(n, rows, key, a.causal_kind)) else []
        return parts[0] if len(parts) == 1 else n("And", *parts)

    def _emit_products(self, n: Nodes, x: list[str], visible: str, to: str) -> None:
        """Write the attention of [batch, heads, tokens, h], whose queries see the `visible` keys, to `to`."""
        a = self._attention
        key, value = (self._expand_heads(n, x[i], i) for i in (KEY, VALUE))
        scores = n("MatMul", x[QUERY], n("Transpose", key, perm=[0, 1, 3, 2]))
        if x[MASK]:
            scores = self._apply_mask(n, scores, x[MASK])
        if visible:
            scores = self._hide_scores(n, scores, visible)
        if a.norm_op is AttentionNormalizationOp.SOFTMAX:
            scores = n("Softmax", scores, axis=-1)
        if x[SCALE]:
            scale = n.scalar(x[SCALE])
            zero = n.array(np.zeros((), a.normalization_quantize_to_type.numpy))
            scores = n("DequantizeLinear", n("QuantizeLinear", scores, scale, zero), scale, zero)
        n("MatMul", scores, value, to=to)

    def _expand_heads(self, n: Nodes, name: str, index: int) -> str:
        """Repeat the heads of key or value, so that they are as many as the query's."""
        query, own = self._attention.get_input(QUERY), self._attention.get_input(index)
        assert query is not None and own is not None  # checked before
        heads, times = query.shape[1], query.shape[1] // own.shape[1]
        if times == 1:
            return name
        repeated = n("Expand", n("Unsqueeze", name, n.ints(2)), n.ints(1, 1, times, 1, 1))
        return n("Reshape", repeated, n.ints(0, heads, -1, own.shape[-1]))

    def _apply_mask(self, n: Nodes, scores: str, mask: str) -> str:
        tensor = self._attention.mask
        if tensor is not None and tensor.dtype is DataType.BOOL:
            return self._hide_scores(n, scores, mask)
        return n("Add", scores, mask)

    def _hide_scores(self, n: Nodes, scores: str, visible: str) -> str:
        return n("Where", visible, scores, n.array(np.float32(np.finfo(np.float32).min)))


class IAttention(Interface):
    """An attention; get one from ``INetworkDefinition.add_attention`` or ``add_attention_v2``.

    Attributes:
        norm_op: What scores are normalized by. They are not divided by anything: scale the query.
        causal_kind: Whether each place sees only those up to its own, counted from the first places
            (UPPER_LEFT) or from the last (LOWER_RIGHT).
        mask: Who is seen, or what is added to the scores.
        query_form, key_value_form: Whether sequences are padded, or packed one behind another.
        query_lengths: int32 [batch + 1], where packed queries begin and end; ignored for padded ones.
        key_value_lengths: The same for packed keys and values; int32 [batch], how many count, for padded.
        normalization_quantize_scale, normalization_quantize_to_type: The grid that normalized scores are
            rounded to; both or none.
        decomposable, metadata, num_ranks: Kept.
    """

    norm_op = AttentionNormalizationOp.SOFTMAX
    causal_kind = CausalMaskKind.NONE
    query_form = PADDED
    key_value_form = PADDED
    decomposable: bool = False
    metadata: str = ""
    num_ranks: int = 1
    _to_type: DataType | None = None

    def __init__(self, start: IAttentionInputLayer, output: IAttentionOutputLayer) -> None:
        self._start, self._output, self._logger = start, output, output._logger
        start._attention = output._attention = self

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
    def causal(self) -> bool:
        """True where each place sees only those up to its own, whatever they are counted from."""
        return self.causal_kind is not CausalMaskKind.NONE

    @causal.setter
    def causal(self, causal: bool) -> None:
        self.causal_kind = CausalMaskKind.UPPER_LEFT if causal else CausalMaskKind.NONE

    @property
    def mask(self) -> ITensor | None:
        """Mask: booleans of the keys that are visible, or floats that are added to the scores."""
        return self._start.get_input(MASK)

    @mask.setter
    def mask(self, tensor: ITensor) -> None:
        self._start.set_input(MASK, tensor)

    @property
    def normalization_quantize_scale(self) -> ITensor | None:
        """One number."""
        return self._start.get_input(SCALE)

    @normalization_quantize_scale.setter
    def normalization_quantize_scale(self, tensor: ITensor) -> None:
        self._start.set_input(SCALE, tensor)

    @property
    def query_lengths(self) -> ITensor | None:
        """Begin of each packed query, and the end of the last."""
        return self._start.get_input(QUERY_LENGTHS)

    @query_lengths.setter
    def query_lengths(self, tensor: ITensor | None) -> None:
        self._start.wire(QUERY_LENGTHS, tensor)

    @property
    def key_value_lengths(self) -> ITensor | None:
        """Begin of each packed sequence of keys, and the last end; or how many padded keys count."""
        return self._start.get_input(KEY_LENGTHS)

    @key_value_lengths.setter
    def key_value_lengths(self, tensor: ITensor | None) -> None:
        self._start.wire(KEY_LENGTHS, tensor)

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
        return self._start.num_inputs

    @property
    def num_outputs(self) -> int:
        """One."""
        return self._output.num_outputs

    def get_input(self, index: int) -> ITensor | None:
        """Query, key, value, mask, scale of the normalization; None where there is none."""
        return self._start.get_input(index)

    def set_input(self, index: int, tensor: ITensor) -> None:
        """Wire query (0), key (1) or value (2) to `tensor`."""
        self._start.set_input(index, tensor)

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
    SAME_TYPE = (0, 1, 2)
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
        update_form: PADDED_BHND as above, or PACKED_NHD: an update [tokens, heads, h].
        update_lengths: int32 [batch + 1]: where the sequences of a packed update begin and end.
    """

    TYPE = LayerType.KV_CACHE_UPDATE
    TITLE = "KVCacheUpdate"
    cache_mode = KVCacheMode.LINEAR
    update_form = PADDED

    @property
    def update_lengths(self) -> ITensor | None:
        """Begin of each sequence of a packed update, and the end of the last."""
        return self.get_input(3)

    @update_lengths.setter
    def update_lengths(self, tensor: ITensor | None) -> None:
        self.wire(3, tensor)

    def check(self) -> list[str]:
        """Check that the cache is an input, whose memory the output takes, and that lengths fit the form."""
        cache, update = self.get_input(0), self.get_input(1)
        if cache is None or not cache.is_network_input:
            return ["the cache must be an input of the network: its memory is written in place"]
        if update is None or len(update.shape) != RANKS[self.update_form]:
            return [f"an update of the form {self.update_form.name} has {RANKS[self.update_form]} dimensions"]
        if (self.update_lengths is None) == (self.update_form is PACKED):
            return ["update_lengths belong to updates of the form PACKED_NHD, and to no others"]
        return [] if self.cache_mode is KVCacheMode.LINEAR else [f"cache_mode {self.cache_mode}"]

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n = Nodes(c, self.name)
        if self.update_form is PACKED:
            self._emit_packed(n, x, y[0])
            return
        rows = n("Range", n.ints(0, shape=()), n.scalar(n.size(x[1], 2)), n.ints(1, shape=()))
        start = n("Reshape", n.cast(x[2], "int64"), n.ints(-1, 1, 1, 1))
        places = n("Add", start, n("Reshape", rows, n.ints(1, 1, -1, 1)))
        n("ScatterElements", x[0], n("Expand", places, n.sizes(x[1])), x[1], to=y[0], axis=2)

    def _emit_packed(self, n: Nodes, x: list[str], to: str) -> None:
        """Write the tokens of packed sequences. Those behind the last go to one more, which is cut off."""
        tokens = tokens_of_packed(n, n.scalar(n.size(x[1], 0)), x[3])
        cache = n("Transpose", x[0], perm=[0, 2, 1, 3])
        batch = n.size(x[0], 0)
        first = n("Slice", cache, n.ints(0), n.ints(1), n.ints(0))
        starts = n("Concat", n.cast(x[2], "int64"), n.ints(0), axis=0)
        within = n("Less", tokens.sequence, batch)
        position = n("Where", within, tokens.position, n.ints(0, shape=()))
        place = n("Add", n("Gather", starts, tokens.sequence), position)
        indices = n("Concat", *(n("Unsqueeze", i, n.ints(1)) for i in (tokens.sequence, place)), axis=1)
        written = n("ScatterND", n("Concat", cache, first, axis=0), indices, x[1])
        n("Transpose", n("Slice", written, n.ints(0), batch, n.ints(0)), to=to, perm=[0, 2, 1, 3])
