"""Checks a node against its operator's schema: attributes and their types, windows, inputs and outputs.

ONNX's inference believes that a node fits its operator, and reads outside its arrays where one does not. What
is refused here, ONNX's checker and ONNX Runtime refuse, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

from intact.errors import FileFormatError
from intact.graph.ops import MICROSOFT
from intact.graph.ops.attributes import FIX
from intact.graph.opset.contrib_ports import contrib_ports

_A = onnx.AttributeProto
_TYPES = dict(_A.AttributeType.items())
_WINDOWS = {"strides": 1, "dilations": 1, "kernel_shape": 1, "pads": 2, "output_padding": 1}
"""Entries for each spatial axis, by attribute."""
_POSITIVE = ("strides", "dilations", "kernel_shape", "group", "blocksize")
_FAR = 2**31  # of a number that says where pixels lie: above what any tensor has


def check_attributes(node: onnx.NodeProto, versions: Mapping[str, int], where: str) -> None:
    """Refuse a node that contradicts its operator's schema.

    Attributes have the wrong type, windows are none, or inputs and outputs are unknown or missing.

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
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if len(attributes) < len(node.attribute):
        raise FileFormatError(where, "an attribute twice", "each attribute once", FIX)
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = versions.get(domain, 0)
    inputs, outputs = _ports(node.op_type, domain, version)
    inputs.check(node.input, where, "input")
    outputs.check(node.output, where, "output")
    if not domain and node.op_type in _OWN_CHECKS:
        _OWN_CHECKS[node.op_type](node, attributes, where)
    if domain == MICROSOFT:
        _check_numbers(node.op_type, attributes, where)
    types = _types(node.op_type, domain, version)
    for name, (wanted, required) in types.items():
        given_attribute = attributes.get(name)
        if given_attribute is None:
            if required:
                raise FileFormatError(f"{where}: attribute '{name}'", "nothing", _name(wanted), FIX)
        elif given_attribute.type != wanted and not (
            given_attribute.ref_attr_name and given_attribute.type == _A.UNDEFINED
        ):
            raise FileFormatError(
                f"{where}: attribute '{name}'", _name(given_attribute.type), _name(wanted), FIX
            )
    if types:
        _check_windows(
            {
                name: attribute_proto
                for name, attribute_proto in attributes.items()
                if not attribute_proto.ref_attr_name
            },
            where,
        )


@cache
def _schema(op_type: str, domain: str, version: int) -> Any:
    """Return ONNX's schema of an operator at a version; None for unknown operators.

    A version before the operator's first one gets the newest schema.
    """
    for named in ((op_type, min(max(version, 1), 2**31 - 1), domain), (op_type, domain)):
        try:
            return onnx.defs.get_schema(*named)
        except onnx.defs.SchemaError:
            continue
    return None


@dataclass(frozen=True)
class _Ports:
    """Inputs, or outputs, of an operator's schema."""

    fewest: int = 0
    most: int = 2**31 - 1
    needed: frozenset[int] = frozenset()
    """Places that have to have a name; the last place stands for all behind it where `repeats`."""
    last: int = 0
    repeats: bool = False

    @staticmethod
    def of(formals: Sequence[Any], fewest: int, most: int) -> _Ports:
        """Return those of a schema's formal parameters."""
        options = [str(formal.option).rpartition(".")[2] for formal in formals]
        needed = {
            place for place, (option, formal) in enumerate(zip(options, formals, strict=True))
            if option == "Single" or (option == "Variadic" and formal.is_homogeneous)
        }  # fmt: skip
        last = len(formals) - 1
        return _Ports(fewest, most, frozenset(needed), last, bool(options) and options[-1] == "Variadic")

    @staticmethod
    def parse(signs: str) -> _Ports:
        """Return those of a word of `contrib_ports`."""
        needed = frozenset(place for place, sign in enumerate(signs) if sign != "?")
        repeats, last = signs.endswith("+"), len(signs) - 1
        return _Ports(
            max(needed, default=-1) + 1, 2**31 - 1 if repeats else len(signs), needed, last, repeats
        )

    def check(self, names: Sequence[str], where: str, what: str) -> None:
        """Refuse names that are too few, too many, or empty where there has to be one."""
        if len(names) < self.fewest or any(names[self.most :]):
            want = f"at least {self.fewest}" if len(names) < self.fewest else f"at most {self.most}"
            raise FileFormatError(where, f"{len(names)} {what}s", want, FIX)
        for place, name in enumerate(names):
            at = min(place, self.last) if self.repeats else place
            if not name and at in self.needed:
                raise FileFormatError(f"{where}: {what} {place}", "no name", f"the name of an {what}", FIX)


@cache
def _ports(op_type: str, domain: str, version: int) -> tuple[_Ports, _Ports]:
    """Return the inputs and outputs of an operator; any where neither ONNX nor ONNX Runtime knows it."""
    if domain == "com.microsoft" and (signs := contrib_ports(op_type)) is not None:
        return _Ports.parse(signs[0]), _Ports.parse(signs[1])
    schema = _schema(op_type, domain, version)
    if schema is None:
        return _Ports(), _Ports()
    return (
        _Ports.of(schema.inputs, int(schema.min_input), int(schema.max_input)),
        _Ports.of(schema.outputs, int(schema.min_output), int(schema.max_output)),
    )


def _check_equation(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], where: str) -> None:
    """Refuse an equation with other signs than ONNX's: its inference looks for the end of some for good."""
    attribute = attributes.get("equation")
    if attribute is None or attribute.ref_attr_name:
        return
    text = attribute.s.decode("latin-1").replace(" ", "")
    terms = text.partition("->")[0].split(",")
    if not _EQUATION.fullmatch(text) or len(terms) != len(node.input):
        want = f"letters for the axes of {len(node.input)} inputs, as in 'ij,jk->ik'"
        raise FileFormatError(f"{where}: attribute 'equation'", f"{attribute.s!r}"[:80], want, FIX)


_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(f"{_TERM}(,{_TERM})*(->{_TERM})?")


def _check_split(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], where: str) -> None:
    """Refuse a Split into other parts than it has outputs: ONNX's inference writes to all of them."""
    sizes = attributes.get("num_outputs"), attributes.get("split")
    for attribute, count in (
        (sizes[0], sizes[0] and sizes[0].i),
        (sizes[1], sizes[1] and len(sizes[1].ints)),
    ):
        if attribute is not None and not attribute.ref_attr_name and count != len(node.output):
            at = f"{where}: attribute '{attribute.name}'"
            raise FileFormatError(at, f"{count} parts", f"one for each of {len(node.output)} outputs", FIX)


@cache
def _types(op_type: str, domain: str, version: int) -> dict[str, tuple[int, bool]]:
    """Type of each attribute, and whether there must be one; empty for operators that ONNX does not know."""
    schema = _schema(op_type, domain, version)
    return (
        {}
        if schema is None
        else {
            name: (_TYPES[str(attribute.type).rpartition(".")[2]], bool(attribute.required))
            for name, attribute in schema.attributes.items()
        }
    )


def _check_batch(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], where: str) -> None:
    """Refuse fewer than no batch axes: ONNX's inference reads in front of its array."""
    attribute = attributes.get("batch_dims")
    if attribute is not None and not attribute.ref_attr_name and attribute.i < 0:
        raise FileFormatError(f"{where}: attribute 'batch_dims'", str(attribute.i), "0 or more", FIX)


def _check_axis(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], where: str) -> None:
    """Refuse an axis beyond 32 bits: ONNX's inference keeps the lower half, and reads before its array."""
    attribute = attributes.get("axis")
    if attribute is not None and not attribute.ref_attr_name and not -_FAR <= attribute.i < _FAR:
        at = f"{where}: attribute 'axis'"
        raise FileFormatError(at, str(attribute.i), f"{-_FAR} to {_FAR - 1}", FIX)


_OWN_CHECKS = {
    "Einsum": _check_equation, "GatherND": _check_batch, "LayerNormalization": _check_axis,
    "Split": _check_split,
}  # fmt: skip


_COUNTS = {"num_heads": 1, "kv_num_heads": 1, "hidden_size": 1, "K": 1, "N": 1, "k": 1, "block_size": 0}
"""Least values of attributes of ONNX Runtime's operators, which divides by some of them unasked."""
_MAY_BE_ABSENT = {"RotaryEmbedding": {"num_heads"}}
"""Of these operators 0 stands for what sizes say."""


def _check_numbers(op_type: str, attributes: Mapping[str, onnx.AttributeProto], where: str) -> None:
    """Refuse integers beyond 32 bits, counts below their least, and texts that are no UTF-8.

    Raises:
        FileFormatError: Names the attribute.
    """
    for name, attribute in attributes.items():
        at = f"{where}: attribute '{name}'"
        numbers = [attribute.i] if attribute.type == _A.INT else list(attribute.ints)
        is_optional = name in _MAY_BE_ABSENT.get(op_type, ())
        low = -_FAR if name not in _COUNTS else 0 if is_optional else _COUNTS[name]
        if not attribute.ref_attr_name and any(not low <= number < _FAR for number in numbers):
            raise FileFormatError(at, f"{numbers}"[:80], f"{low} to {_FAR - 1}", FIX)
        try:
            for text in (attribute.s, *attribute.strings):
                text.decode()
        except UnicodeDecodeError as error:
            raise FileFormatError(at, "bytes that are no UTF-8", "text", FIX) from error


def _name(kind: int) -> str:
    return f"the type {_A.AttributeType.Name(kind)}"


def _check_windows(attributes: Mapping[str, onnx.AttributeProto], where: str) -> None:
    lists = {
        name: list(attributes[name].ints)
        for name in _WINDOWS
        if name in attributes and attributes[name].type == _A.INTS
    }
    single = {
        name: [attributes[name].i]
        for name in _POSITIVE
        if name in attributes and attributes[name].type == _A.INT
    }
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
