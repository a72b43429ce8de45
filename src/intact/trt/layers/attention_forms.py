"""Sequences of an attention: which form their tensors have, and which keys a query sees.

In the form PADDED_BHND a tensor is [batch, heads, tokens, h]. In PACKED_NHD it is [tokens, heads, h], the
sequences one behind another, and a vector of lengths says where each begins and where the last ends. Packed
sequences are computed as one long sequence of a batch of one, in which a query sees no other's keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from intact.trt.base.operation_enums import AttentionIOForm, CausalMaskKind
from intact.trt.layers.base import Nodes


@dataclass(frozen=True)
class Tokens:
    """Names of int64 vectors: for each token of a batch of sequences, what it is in its sequence.

    Attributes:
        sequence: The number of its sequence.
        position: Its place there, from 0.
        length: The length of its sequence.
    """

    sequence: str
    position: str
    length: str


def count_up(n: Nodes, count: str) -> str:
    """Return 0, 1, ... as many as the scalar `count` says."""
    return n("Range", n.ints(0, shape=()), count, n.ints(1, shape=()))


def tokens_of_packed(n: Nodes, count: str, lengths: str) -> Tokens:
    """Return what the tokens of packed sequences are.

    Args:
        n: Writes the nodes.
        count: How many tokens there are, a scalar; those behind the last sequence belong to one more.
        lengths: int32 [sequences + 1]: where each sequence begins, and where the last ends.
    """
    bounds = n.cast(lengths, "int64")
    ends = n("Slice", bounds, n.ints(1), n.ints(2**31), n.ints(0))
    places = count_up(n, count)
    passed = n("GreaterOrEqual", n("Unsqueeze", places, n.ints(1)), ends)
    sequence = n("ReduceSum", n.cast(passed, "int64"), n.ints(1), keepdims=0)
    begin = n("Gather", bounds, sequence)
    last = n("Sub", n.scalar(n.size(lengths, 0)), n.ints(1, shape=()))
    end = n("Gather", bounds, n("Min", n("Add", sequence, n.ints(1, shape=())), last))
    return Tokens(sequence, n("Sub", places, begin), n("Sub", end, begin))


def tokens_of_padded(n: Nodes, sequences: str, size: str, lengths: str) -> Tokens:
    """Return what the tokens of padded sequences are, sequence by sequence.

    Args:
        n: Writes the nodes.
        sequences, size: How many sequences there are, and tokens in each; scalars.
        lengths: int32 [sequences]: how many tokens of each count; "": all.
    """
    places = count_up(n, n("Mul", sequences, size))
    sequence = n("Div", places, size)
    length = (
        n("Gather", n.cast(lengths, "int64"), sequence) if lengths else n("Expand", size, n.sizes(places))
    )
    return Tokens(sequence, n("Mod", places, size), length)


def visible_keys(n: Nodes, query: Tokens, key: Tokens, kind: CausalMaskKind) -> str:
    """Return booleans [query tokens, key tokens]: whether a query sees a key of its own sequence."""
    rows = Tokens(*(n("Unsqueeze", name, n.ints(1)) for name in vars(query).values()))
    own = n("Equal", rows.sequence, key.sequence)
    visible = n("And", own, n("Less", key.position, key.length))
    causal = causal_keys(n, rows, key, kind)
    return n("And", visible, causal) if causal else visible


def causal_keys(n: Nodes, rows: Tokens, key: Tokens, kind: CausalMaskKind) -> str:
    """Return whether a key lies not behind its query by `kind`; "" where every key is visible."""
    if kind is CausalMaskKind.NONE:
        return ""
    limit = rows.position
    if kind is CausalMaskKind.LOWER_RIGHT:
        limit = n("Add", limit, n("Sub", key.length, rows.length))
    return n("GreaterOrEqual", limit, key.position)


def flatten(n: Nodes, name: str, form: AttentionIOForm, size: int) -> str:
    """Return a tensor of any form as [1, heads, tokens, h]; `size` is h."""
    if form is AttentionIOForm.PACKED_NHD:
        return n("Unsqueeze", n("Transpose", name, perm=[1, 0, 2]), n.ints(0))
    heads = n("Transpose", name, perm=[1, 0, 2, 3])
    return n("Unsqueeze", n("Reshape", heads, n.ints(0, -1, size)), n.ints(0))


def restore_form(n: Nodes, name: str, form: AttentionIOForm, like: str, to: str) -> None:
    """Write [1, heads, tokens, h] in `form`, with the sizes of the query `like`, to `to`."""
    heads = n("Squeeze", name, n.ints(0))
    if form is AttentionIOForm.PACKED_NHD:
        n("Transpose", heads, to=to, perm=[1, 0, 2])
        return
    sizes = n("Gather", n.sizes(like), n.ints(1, 0, 2, 3))
    n("Transpose", n("Reshape", heads, sizes), to=to, perm=[1, 0, 2, 3])
