"""Lets a script that builds a network layer by layer parse the Q/DQ file instead, just before it builds."""

from __future__ import annotations

import ast

from intact.trt.migration.script_edits import STRONGLY_TYPED
from intact.trt.migration.source_text import Replacement, SourceText
from intact.trt.migration.syntax_queries import last_name

_REASON = "the network comes from the Q/DQ file"


def parse_before_build(data: bytes, name: str, qdq: str) -> tuple[bytes, list[Replacement]]:
    """Insert a parser in front of every statement that builds a network; return the text and what was added.

    Args:
        data: A script that was rewritten already.
        name: Of the file, for errors.
        qdq: The Q/DQ file, as the script will name it.
    """
    source = SourceText.parse(data, name)
    parents = {child: node for node in ast.walk(source.tree) for child in ast.iter_child_nodes(node)}
    changes = []
    for node in ast.walk(source.tree):
        if not _builds(node):
            continue
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        statement: ast.AST = node
        while not isinstance(statement, ast.stmt):
            statement = parents[statement]
        start, _ = source.lines_of(statement)
        place = source.span(statement)[0]
        indent = source.data[start:place].decode()
        if indent.strip():
            continue
        builder, network = source.text_of(node.func.value), source.text_of(node.args[0])
        trt = next(
            (a.asname or a.name for n in ast.walk(source.tree) if isinstance(n, ast.Import) for a in n.names
             if a.name == "tensorrt"), "trt",
        )  # fmt: skip
        lines = (
            f"{network} = {builder}.create_network({STRONGLY_TYPED.format(trt)})",
            f"qdq_parser = {trt}.OnnxParser({network}, {builder}.logger)",
            f"if not qdq_parser.parse_from_file({qdq!r}):",
            "    raise RuntimeError(qdq_parser.get_error(0).desc())",
        )
        text = "".join(f"{indent}{line}\n" for line in lines)
        changes.append(Replacement(start, start, text, statement.lineno, _REASON))
    return source.apply(changes), changes


def _builds(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and last_name(node.func) == "build_serialized_network"
        and len(node.args) == 2
        and isinstance(node.args[0], ast.Name | ast.Attribute)
    )
