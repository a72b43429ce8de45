"""Questions about the syntax tree of a TensorRT script."""

from __future__ import annotations

import ast

from intact.trt.base.removed_members import REMOVED
from intact.trt.base.script_dialect import SUCCESSORS
from intact.trt.migration.removed_api import (
    ALWAYS_TRUE,
    CALIBRATORS,
    CALLS,
    FLAGS,
    NETWORK_FLAGS,
    SETTINGS,
    TYPES,
)


def calibrator_classes(tree: ast.Module, imported: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the names of the calibrators that a module defines, and of functions that return only these."""
    names = set(imported)
    before = -1
    while before != len(names):
        before = len(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(
                last_name(b) in CALIBRATORS | names for b in node.bases
            ):
                names.add(node.name)
            elif isinstance(node, ast.FunctionDef):
                returns = [
                    n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None
                ]
                calls = [last_name(r.func) if isinstance(r, ast.Call) else last_name(r) for r in returns]
                if calls and all(call in names for call in calls):
                    names.add(node.name)
    return frozenset(names)


def last_name(node: ast.AST) -> str:
    """Return "c" of ``a.b.c`` or ``c``; "" of anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def mentions_removed(tree: ast.Module) -> bool:
    """Return whether a module uses anything that TensorRT 11 removed."""
    flags = frozenset().union(*FLAGS.values(), NETWORK_FLAGS)
    gone = (
        TYPES | CALLS.keys() | SETTINGS.keys() | ALWAYS_TRUE | flags | {"max_workspace_size", "build_engine"}
    )
    return any(isinstance(node, ast.Attribute) and node.attr in gone for node in ast.walk(tree))


def attributes(node: ast.AST) -> list[ast.Attribute]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Attribute)]


def terms(node: ast.expr) -> list[ast.expr]:
    """Return the terms of ``a | b | c``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*terms(node.left), *terms(node.right)]
    return [node]


def makes_builder(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "Builder"


def is_argument_parser(node: ast.Call) -> bool:
    return last_name(node.func) == "parse" and not node.args


def successor(name: str) -> str:
    for members in REMOVED.values():
        if name in members:
            return members[name]
    return " or ".join(sorted(SUCCESSORS[name]))
