"""`read_placement`: the layers that the pairs of a Q/DQ graph make run in int8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from intact.graph import REASON_KEY, Model, QuantizedValue, Value
from intact.graph.ops import CONVOLUTIONS, MOVING, PRODUCTS
from intact.layer import Layer
from intact.placement.layers import Fuser
from intact.placement.pair_warnings import remarks_on
from intact.placement.pairs import Pairs, scale_key
from intact.placement.placement_graph import Reader, View
from intact.placement.profiles import Profile, profile_of
from intact.placement.records import Placement, Site

_MOST = 300
"""Characters of a reason that a file gives."""


def read_placement(model: Model, profile: str | Profile = "intact") -> Placement:
    """Return the placement of a graph with Q/DQ pairs: layers in int8, their fusions, and reasons for others.

    A layer runs in int8 when all its quantizable inputs come through DequantizeLinear, none of them in 16
    bits: precision is what the file says. The reason of a layer ends with what is wrong with its pairs, for
    example pairs on both inputs of a residual Add; where the file says why, it begins with that.

    Args:
        model: Not changed.
        profile: What fuses: a name of `PROFILES`.
    Returns:
        Its sites are the pairs of the file whose scales are constants; those with equal scales are one group.
    Raises:
        QuantValueError: There is no such profile.
    """
    view, chosen = View(model), profile_of(profile)
    fuser, pairs = Fuser(view, chosen, quantized=view.marks.__contains__), Pairs(view)
    remarks: dict[str, list[str]] = {}
    for remark in remarks_on(view, pairs, chosen):
        remarks.setdefault(remark.op.name, []).append(remark.message)
    alone = {
        op.name: f"weights alone are quantized ({weight.spec.format}), so that it computes in float: "
        for op in view.ops
        if op.domain == "" and op.op_type in CONVOLUTIONS | PRODUCTS and view.is_constant(op.inputs[1])
        and not fuser.carries((op, 0)) and pairs.above((op, 0)) is None
        and (weight := pairs.above((op, 1))) is not None
    }  # fmt: skip
    layers, fusions = fuser.layers()
    noted = {
        op.name: f"{reason[:_MOST]}; "
        for op in view.ops
        if (reason := op.node.metadata_props.get(REASON_KEY))
    }
    explained = (
        replace(named, reason=_first(named, noted) + alone.get(named.name, "") + named.reason)
        for named in layers
    )
    return Placement(
        _sites(view, pairs), tuple(_with(layer, remarks) for layer in explained), fusions, chosen
    )


def _first(layer: Layer, noted: Mapping[str, str]) -> str:
    """Return the file's first remark on a layer's nodes; "" for layers that only move data."""
    if layer.op_type in MOVING:
        return ""
    return next((noted[name] for name in layer.nodes if name in noted), "")


def _with(layer: Layer, remarks: dict[str, list[str]]) -> Layer:
    messages = dict.fromkeys(message for node in layer.nodes for message in remarks.get(node, ()))
    return replace(layer, reason="; ".join([layer.reason, *messages])) if messages else layer


def _sites(view: View, pairs: Pairs) -> tuple[Site, ...]:
    groups: dict[object, int] = {}
    sites = list[Site]()
    for value in pairs.tensors:
        constant = view.is_constant(value)
        split: dict[tuple[object, ...], list[tuple[Reader, QuantizedValue]]] = {}
        for reader, quantized in pairs.readers(value):
            split.setdefault(scale_key(quantized), []).append((reader, quantized))
        for key, group_readers in split.items():
            number = groups.setdefault((value, key) if constant else key, len(groups))
            sites.append(_site(value, group_readers, constant, number))
    return tuple(sites)


def _site(value: Value, readers: list[tuple[Reader, QuantizedValue]], constant: bool, group: int) -> Site:
    axis = readers[0][1].spec.axis
    return Site(
        value=value.name or "",
        readers=tuple((op.name, index) for (op, index), _ in readers),
        role="weight" if constant else "activation",
        axis=axis if isinstance(axis, int) else None,
        group=group,
        reason="the file has a pair there",
    )
