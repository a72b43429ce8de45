"""Writes the quantizers of attention: of queries, keys, values, probabilities and the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact.graph import Namer, Node, QuantizerWriter, Value, insert_behind
from intact.ptq.modelopt.attention_products import AttentionProducts, source_of_transpose
from intact.ptq.modelopt.configurations import ATTENTION_KINDS, QuantizerRules
from intact.ptq.modelopt.layer_quantizers import require_input_grid, words_of, write_input
from intact.ptq.modelopt.layer_search import hadamard
from intact.ptq.modelopt.quantizers import QuantizerChain, refuse
from intact.ptq.modelopt.tensor_statistics import RangeStatistics

_RESULT = -1  # in place of an input: what a node makes
_ROTATED = ("q_bmm_quantizer", "k_bmm_quantizer")


@dataclass(frozen=True)
class AttentionTensor:
    """Describes a tensor of attention that gets quantizers.

    Attributes:
        name: Of the attention.
        kind: Of the quantizer, as ModelOpt calls it.
        node: The product that reads it, or makes it.
        index: Which input it is; -1: the output.
        value: The tensor as it is in the graph; keys are turned there.
        chain: Its quantizers.
        statistics: What data say of it.
    """

    name: str
    kind: str
    node: Node
    index: int
    value: Value
    chain: QuantizerChain
    statistics: RangeStatistics

    @property
    def is_turned(self) -> bool:
        """True where the graph has it as [..., D, T]."""
        return self.kind == "k_bmm_quantizer"

    @property
    def needs_data(self) -> bool:
        """True where a range or a mean is stored."""
        return any(quantizer.needs_range for quantizer in self.chain.quantizers)


def attention_tensors(attention: AttentionProducts, rules: QuantizerRules) -> list[AttentionTensor]:
    """Return the tensors of one attention that get quantizers.

    Raises:
        UnsupportedError: The quantizers are none that INTact writes.
    """
    edges = {
        "q_bmm_quantizer": (attention.scores, 0), "k_bmm_quantizer": (attention.scores, 1),
        "softmax_quantizer": (attention.context, 0), "v_bmm_quantizer": (attention.context, 1),
        "bmm2_output_quantizer": (attention.context, _RESULT),
    }  # fmt: skip
    if len({rules.of(attention.paths, kind).rotates for kind in _ROTATED}) > 1:
        raise refuse("rotate", "queries or keys alone that are rotated", "rotate both")
    tensors = []
    for kind in ATTENTION_KINDS:
        chain = rules.of(attention.paths, kind)
        if not chain:
            continue
        node, index = edges[kind]
        value = node.outputs[0] if index == _RESULT else node.inputs[index]
        assert value is not None
        for quantizer in chain.quantizers:
            require_input_grid(kind, quantizer)
        turned = kind == "k_bmm_quantizer"
        if chain.rotates and kind not in _ROTATED:
            raise refuse(f"{kind}: rotate", "a rotation that no other tensor undoes")
        first = chain.quantizers[0] if chain.quantizers else None
        if any(quantizer.bias_axes for quantizer in chain.quantizers[1:]):
            raise refuse(f"{kind}: bias", "a mean behind another quantizer")
        statistics = RangeStatistics(first, _Preparation(turned, chain.rotates))
        tensors.append(AttentionTensor(attention.name, kind, node, index, value, chain, statistics))
    return tensors


@dataclass(frozen=True)
class _Preparation:
    """Brings a tensor of the graph to the form that quantizers see."""

    turned: bool
    rotates: bool

    def __call__(self, x: NDArray) -> NDArray:
        x = np.swapaxes(x, -1, -2) if self.turned else x
        matrix = hadamard(x.shape[-1]) if self.rotates else None
        return x if matrix is None else np.asarray(x @ matrix)


def _last_size(value: Value | None, axis: int) -> int | None:
    size = (
        value.shape[axis] if value is not None and value.shape is not None and len(value.shape) >= 2 else None
    )
    return size if isinstance(size, int) else None


def _size_of(tensor: AttentionTensor) -> int:
    """Return the size of the last axis as quantizers see it; 0 where none of them asks for it."""
    size = _last_size(tensor.value, -2 if tensor.is_turned else -1)
    if size is None and tensor.kind in _ROTATED:  # queries and keys have the same
        size = next((n for i, a in ((0, -1), (1, -2)) if (n := _last_size(tensor.node.inputs[i], a))), None)
    size = tensor.statistics.size if size is None else size
    widths = [quantizer.blocks[-1] for quantizer in tensor.chain.quantizers if quantizer.blocks]
    where = f"{tensor.name}: {tensor.kind}"
    if size is None and (widths or tensor.chain.rotates):
        raise refuse(where, "a tensor of an unknown size", "infer the shapes of the model first")
    if tensor.chain.rotates and (size is None or hadamard(size) is None):
        raise refuse(f"{where}: rotate", f"rotation of {size} channels")
    if size is not None and (misfit := next((w for w in widths if w and size % w), None)):
        raise refuse(where, f"blocks of {misfit} that do not fill {size} channels")
    return size or 0


def write_attention(names: Namer, tensor: AttentionTensor) -> str:
    """Write the quantizers of a tensor of attention, in place; return them in words.

    Raises:
        UnsupportedError: The sizes of the tensor are not known, or blocks do not fill it.
    """
    size = _size_of(tensor)
    node, index = tensor.node, tensor.index
    if index == _RESULT:
        reader = insert_behind(node, names, "Identity").producer()
        assert reader is not None
        node, index = reader, 0
    x, rank = node.inputs[index], None
    assert x is not None
    write = QuantizerWriter(node, names)
    if tensor.is_turned:
        rank = len(x.shape) if x.shape is not None else tensor.statistics.rank
        if rank is None:
            raise refuse(f"{tensor.name}: {tensor.kind}", "keys of an unknown rank", "infer shapes first")
        before = source_of_transpose(x)
        x = before if before is not None else write.swap_last_axes(x, rank)
    most = tensor.statistics.most if tensor.needs_data else None
    x = write_input(write, x, tensor.chain, size, most, tensor.statistics.mean)
    if rank is not None:
        x = write.swap_last_axes(x, rank)
    node.replace_input_with(index, x)
    return words_of(tensor.chain)
