"""The book of operators: every record reads, says what ONNX says, and is the only place where it is said."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from intact.errors import FileFormatError
from intact.graph import Constants, Model, ops

SRC = Path(__file__).parents[2] / "src" / "intact"
ELSEWHERE = {
    "trt/base/enums.py",  # another library's words
}
BOOK_MODULES = {"intact.graph.ops", "intact.graph.ops.attributes"}
READERS = {
    "integer",
    "integers",
    "floating",
    "floatings",
    "text",
    "texts",
    "plain",
    "values",
    "arrays",
    "graph",
}
"""Functions that read an attribute by its name, or all of them."""
GENERIC = {
    "graph/core/constants.py", "graph/core/float_values.py",  # evaluate an operator of any kind
    "graph/infer/unknown_operators.py",  # shows attributes of operators that nobody knows
    "graph/rewrites/widen_float16.py",  # widens whatever holds or names a type
}  # fmt: skip
"""Modules that look at the attributes of any operator."""
RECORDS = [(key, ops.BOOK[key]) for key in sorted(ops.BOOK) if not key[0]]


def node(op_type: str, inputs: int = 1, outputs: int = 1, **attributes: object) -> ir.Node:
    values = [ir.Value(name=f"x{i}") for i in range(inputs)]
    return ir.node(op_type, values, attributes, num_outputs=outputs, name="n")


@pytest.mark.parametrize(("key", "record"), RECORDS, ids=[name for (_, name), _ in RECORDS])
def test_a_record_is_what_onnx_says(key: tuple[str, str], record: type[ops.Operator]) -> None:
    """Types and defaults of attributes; those of older opsets are kept for what is not raised yet."""
    domain, name = key
    if onnx.defs.onnx_opset_version() < 28 and not onnx.defs.has(name, domain):
        pytest.skip("newer than the installed onnx")
    schema = onnx.defs.get_schema(name, domain)
    read_record = record.of(node(name))
    for field in fields(record):
        wanted = schema.attributes.get(field.name)
        if wanted is None or not wanted.default_value.type:
            continue
        default = onnx.helper.get_attribute_value(wanted.default_value)
        default = default.decode() if isinstance(default, bytes) else default
        assert getattr(read_record, field.name) in (default, pytest.approx(default), None), field.name
    assert record.kind and (record.data is None or max(record.data) < schema.max_input)


def test_attributes_are_read_with_their_types() -> None:
    conv = ops.Conv.of(node("Conv", group=2, strides=[2, 1]))
    assert (conv.group, conv.strides, conv.pads, conv.auto_pad) == (2, (2, 1), (), "NOTSET")
    assert ops.ConvTranspose.of(node("ConvTranspose")).output_shape is None
    assert ops.Clip.of(node("Clip", max=6.0)).max == 6
    assert ops.display_name(node("Gelu", approximate="tanh")) == "Gelu(tanh)"
    assert ops.display_name(node("Gelu")) == "Gelu" and ops.display_name(node("Mine")) == "Mine"
    with pytest.raises(FileFormatError, match=r"node 'n' \(Conv\): attribute 'group'"):
        ops.Conv.of(node("Conv", group=1.0))


@pytest.mark.parametrize(
    ("auto", "size", "pads"),
    [("NOTSET", 5, (1, 2)), ("VALID", 5, (0, 0)), ("SAME_UPPER", 5, (1, 1)), ("SAME_UPPER", 6, (0, 1)),
     ("SAME_LOWER", 6, (1, 0)), ("SAME_UPPER", None, None)],
)  # fmt: skip
def test_pads_of_a_window(auto: str, size: int | None, pads: tuple[int, int] | None) -> None:
    pool = ops.MaxPool(auto, (3,), (2,), (), (1, 2))
    assert pool.pads_of((3,), [size]) == pads
    if pads is not None and size is not None:
        assert pool.positions([size], (3,)) == [(size + sum(pads) - 3) // 2 + 1]


def test_the_same_size_keeps_its_name() -> None:
    assert ops.Conv(pads=(1, 1)).positions(["n"], [3]) == ["n"]
    assert ops.Conv(auto_pad="SAME_UPPER", strides=(2,)).positions(["n"], [3]) == ["(n+1)//2"]
    assert ops.Conv().positions([None], [3]) == [None]


def guard_reason(op_type: str, *constants: object, **attributes: object) -> str:
    """Return the book's reason about a node whose further inputs are these; None: computed."""
    layer = node(op_type, 1 + len(constants), 2, **attributes)
    constant_values = {
        v: np.asarray(c) for v, c in zip(layer.inputs[1:], constants, strict=True) if c is not None
    }
    return ops.computes(layer, lambda value: constant_values.get(value) if value is not None else None)


@pytest.mark.parametrize(
    ("got", "why"),
    [
        (guard_reason("Transpose"), ""),
        (guard_reason("Relu"), "it computes"),
        (guard_reason("Mine"), "it computes"),
        (guard_reason("Pad", [1, 1]), ""),
        (guard_reason("Pad", [1, 1], 0.0), ""),
        (guard_reason("Pad", [1, 1], 2.0), "it pads with 2, which is no code of every grid; 0 is"),
        (guard_reason("Pad", [1, 1], None), "it pads with a value that is computed"),
        (guard_reason("Pad", [1, 1], mode="reflect"), ""),
        (guard_reason("Resize", mode="linear"), "it interpolates (linear): new values between the codes"),
        (guard_reason("Dropout", 0.5, False), ""),
        (guard_reason("Dropout", 0.5, True), "it drops at random"),
        (guard_reason("Dropout", 0.5, None), "it drops at random"),
        (guard_reason("Gather", [0, 2]), ""),
    ],
)
def test_guards(got: str, why: str) -> None:
    assert got == why


def test_indices_of_a_pool_keep_it_from_codes() -> None:
    pool = node("MaxPool", outputs=2, kernel_shape=[2, 2])
    reader = ir.node("Identity", [pool.outputs[1]])
    nothing = Constants(Model(ir.Graph([], [], nodes=[pool, reader]), ir_version=10).graph)
    assert ops.computes(pool, nothing) == ""
    assert ops.quantized_before(pool, nothing) == "its indices are used, and equal codes would change them"


def test_where_the_weights_channels_lie() -> None:
    assert ops.weight_axis(node("Gemm", transB=1)) == 0 and ops.weight_axis(node("Gemm")) == 1
    assert ops.weight_axis(node("Conv")) == 0 and ops.weight_axis(node("Relu")) is None


def test_curves_are_functions_of_their_attributes() -> None:
    x = np.array([-1.0, 2.0])
    assert ops.curve(node("LeakyRelu", alpha=0.5), x).tolist() == [-0.5, 2.0]
    assert ops.curve(node("Clip", max=1.0), x).tolist() == [-1.0, 1.0]
    assert ops.curve(node("Conv"), x) is None


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SRC.rglob("*.py")):
        name = path.relative_to(SRC).as_posix()
        if not name.startswith("graph/ops/") and name not in ELSEWHERE:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def test_nobody_else_lists_the_operators_that_move_data() -> None:
    """A table from operator to what is done about it is none, nor what a module exports; a collection is."""
    places = [
        (name, part.lineno)
        for name, tree in sources()
        if not name.startswith("graph/")
        for part in (p for top in tree.body if "__all__" not in ast.unparse(top)[:10] for p in ast.walk(top))
        if isinstance(part, ast.Set | ast.Tuple | ast.List)
        and sum(isinstance(e, ast.Constant) and e.value in ops.MOVING for e in part.elts) > 2
    ]
    assert places == []


def test_nobody_else_reads_attributes_of_nodes_raw() -> None:
    """Steps have attributes of their own."""
    places = [
        (name, part.lineno)
        for name, tree in sources()
        for part in ast.walk(tree)
        if isinstance(part, ast.Attribute) and part.attr == "attributes"
        and not (isinstance(part.value, ast.Name) and part.value.id in ("self", "step", "cell", "schema"))
    ]  # fmt: skip
    assert places == []


def test_nobody_else_reads_attributes_by_name() -> None:
    """A record says which attributes an operator has, of which types, and what they are by default."""
    operators = set()
    for name, tree in sources():
        for part in ast.walk(tree):
            is_import = isinstance(part, ast.ImportFrom) and part.module in BOOK_MODULES
            is_call = isinstance(part, ast.Attribute) and ast.unparse(part.value) == "attributes"
            names = {alias.name for alias in part.names} if is_import else {part.attr} if is_call else set()
            if names & READERS:
                operators.add(name)
    assert operators == GENERIC


def test_what_one_name_means_in_two_domains_has_two_records() -> None:
    attention = node("Attention", num_heads=4, scale=0.5)
    assert ops.read(attention) == ops.Attention(scale=0.5)
    attention.domain = ops.MICROSOFT
    assert ops.read(attention) == ops.RuntimeAttention(num_heads=4, scale=0.5)
    assert ops.display_name(attention) == "Attention"


def test_reals_are_read_as_such() -> None:
    scaler = node("Scaler", offset=[1.0, 2.0], scale=[0.5])
    assert ops.Scaler.of(scaler) == ops.Scaler((1.0, 2.0), (0.5,))


def test_a_branch_that_is_missing_is_named() -> None:
    with pytest.raises(FileFormatError, match=r"node 'n' \(If\): attribute 'then_branch': got nothing"):
        ops.If.branch(node("If"), "then_branch")
