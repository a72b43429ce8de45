"""A node against what its operator says: types of attributes, their presence and windows, how many inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import onnx

from intact.errors import FileFormatError
from intact.graph.attributes import FIX

_A = onnx.AttributeProto
_TYPES = dict(_A.AttributeType.items())
_WINDOWS = {"strides": 1, "dilations": 1, "kernel_shape": 1, "pads": 2, "output_padding": 1}
"""Entries for each spatial axis, by attribute."""
_POSITIVE = ("strides", "dilations", "kernel_shape", "group", "blocksize")
_FAR = 2**31  # of a number that says where pixels lie: above what any tensor has


def check_attributes(node: onnx.NodeProto, versions: Mapping[str, int], where: str) -> None:
    """Refuse attributes of other types than the node's operator wants, windows that are none, and inputs that
    no operator of its name takes.

    Args:
        node: Of any domain; of operators that ONNX does not know nothing is known.
        versions: The opset of each domain where the node stands.
        where: The node, in words, for errors.
    Raises:
        FileFormatError: Names the node and the attribute.
    """
    for name in (node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)):
        if not isinstance(name, str):  # protobuf hands out the bytes of what is no UTF-8
            raise FileFormatError(where, f"a name {name!r:.60}", "text", FIX)
    given = {attribute.name: attribute for attribute in node.attribute}
    if len(given) < len(node.attribute):
        raise FileFormatError(where, "an attribute twice", "each attribute once", FIX)
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = versions.get(domain, 0)
    fewest, most = _inputs(node.op_type, domain, version)
    if len(node.input) < fewest or any(node.input[most:]):
        want = f"at least {fewest}" if len(node.input) < fewest else f"at most {most}"
        raise FileFormatError(where, f"{len(node.input)} inputs", want, FIX)
    types = _types(node.op_type, domain, version)
    for name, (wanted, required) in types.items():
        found = given.get(name)
        if found is None:
            if required:
                raise FileFormatError(f"{where}: attribute '{name}'", "nothing", _name(wanted), FIX)
        elif found.type != wanted and not (found.ref_attr_name and found.type == _A.UNDEFINED):
            raise FileFormatError(f"{where}: attribute '{name}'", _name(found.type), _name(wanted), FIX)
    if types:
        _check_windows({name: one for name, one in given.items() if not one.ref_attr_name}, where)


@cache
def _schema(op_type: str, domain: str, version: int) -> Any:
    """What ONNX says about an operator, in its last form where the version does not have it yet; None where
    ONNX does not know it."""
    for named in ((op_type, min(max(version, 1), 2**31 - 1), domain), (op_type, domain)):
        try:
            return onnx.defs.get_schema(*named)
        except onnx.defs.SchemaError:
            continue
    return None


def _inputs(op_type: str, domain: str, version: int) -> tuple[int, int]:
    """How many inputs an operator takes, at least and at most."""
    schema = _schema(op_type, domain, version)
    return (0, 2**31 - 1) if schema is None else (int(schema.min_input), int(schema.max_input))


@cache
def _types(op_type: str, domain: str, version: int) -> dict[str, tuple[int, bool]]:
    """Type of each attribute, and whether there must be one; empty for operators that ONNX does not know."""
    schema = _schema(op_type, domain, version)
    return (
        {}
        if schema is None
        else {
            name: (_TYPES[str(one.type).rpartition(".")[2]], bool(one.required))
            for name, one in schema.attributes.items()
        }
    )


def _name(kind: int) -> str:
    return f"the type {_A.AttributeType.Name(kind)}"


def _check_windows(given: Mapping[str, onnx.AttributeProto], where: str) -> None:
    lists = {
        name: list(given[name].ints) for name in _WINDOWS if name in given and given[name].type == _A.INTS
    }
    single = {name: [given[name].i] for name in _POSITIVE if name in given and given[name].type == _A.INT}
    if "kernel_shape" in lists or "strides" in lists or "dilations" in lists:
        ranks = {name: len(numbers) / _WINDOWS[name] for name, numbers in lists.items()}
        if len(set(ranks.values())) > 1 or 0 in ranks.values():
            raise FileFormatError(
                where, f"{lists}"[:200], "one entry for each spatial axis, two of pads", FIX
            )
    for name, numbers in (lists | single).items():
        low = 1 if name in _POSITIVE else -_FAR
        if any(not low <= number < _FAR for number in numbers):
            raise FileFormatError(f"{where}: attribute '{name}'", f"{numbers}"[:80], f"{low} or more", FIX)
