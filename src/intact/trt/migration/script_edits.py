"""Rewrites a script of TensorRT 8 or 10 for version 11: no calibrator, no precision flags, strongly typed.

Scripts come from strangers: they are parsed, and nothing of them runs. Whatever cannot be rewritten without
knowing what the script means is left as it is and listed, with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from intact.trt.base.script_dialect import SUCCESSORS
from intact.trt.migration.removed_api import (
    ALWAYS_TRUE,
    CALIBRATORS,
    CALLS,
    FLAGS,
    HALF_TYPES,
    NETWORK_FLAGS,
    OTHERS,
    POLYGRAPHY_KEYWORDS,
    SETTINGS,
    SETTINGS_OF_TYPES,
    TYPES,
)
from intact.trt.migration.source_text import Replacement, SourceText, outermost
from intact.trt.migration.syntax_queries import (
    attributes,
    calibrator_classes,
    is_argument_parser,
    last_name,
    makes_builder,
    successor,
    terms,
)

STRONGLY_TYPED = "1 << int({}.NetworkDefinitionCreationFlag.STRONGLY_TYPED)"
_BODIES = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class OpenPoint:
    """Holds what a reader has to look at: a place that the edit leaves as it is.

    Attributes:
        line: Where it stands, from 1.
        what: The name that TensorRT 11 does not have, or the call.
        advice: What to do.
    """

    line: int
    what: str
    advice: str


@dataclass
class ScriptEdit:
    """Holds a script that was rewritten.

    Attributes:
        name: Of the file.
        old, new: Its bytes.
        changes: What was changed, in order.
        open_points: What is left to do by hand.
        reads_onnx: Whether a parser reads an ONNX file.
    """

    name: str
    old: bytes
    new: bytes
    changes: list[Replacement] = field(default_factory=list)
    open_points: list[OpenPoint] = field(default_factory=list)
    reads_onnx: bool = False


def edit_script(
    data: bytes,
    name: str,
    qdq: str,
    *,
    onnx: str = "",
    calibrators: Mapping[str, frozenset[str]] | None = None,
) -> ScriptEdit:
    """Rewrite one file.

    Args:
        data: The file.
        name: Its name, for messages and the patch.
        qdq: Name of the Q/DQ file that the script parses from now on.
        onnx: Name of the float file that it parsed; literals that end in it are replaced.
        calibrators: Classes of calibrators by local module, from `calibrator_classes`.
    Raises:
        FileFormatError: The file is no Python 3.
    """
    editor = _Editor(SourceText.parse(data, name), qdq, onnx, dict(calibrators or {}))
    editor.run()
    changes = outermost(editor.changes)
    points = sorted(dict.fromkeys(editor.open_points), key=lambda point: point.line)
    return ScriptEdit(name, data, editor.source.apply(changes), changes, points, editor.reads_onnx)


class _Editor:
    def __init__(
        self, source: SourceText, qdq: str, onnx: str, calibrators: dict[str, frozenset[str]]
    ) -> None:
        self.source, self.qdq, self.onnx = source, qdq, onnx
        self.changes, self.open_points = list[Replacement](), list[OpenPoint]()
        self.parents = {child: node for node in ast.walk(source.tree) for child in ast.iter_child_nodes(node)}
        self.modules = calibrators
        self.trt = self._name_of_tensorrt()
        self.imported = self._find_imported_calibrators()
        self.calibrators = calibrator_classes(source.tree, self.imported)
        self.gone = set[ast.AST]()  # statements that are taken out
        self.dead = set[str]()  # variables that held calibrators
        self.reads_onnx = False

    def run(self) -> None:
        statements = [node for node in ast.walk(self.source.tree) if isinstance(node, ast.stmt)]
        for statement in statements:
            if (reason := self._reason_to_drop(statement)) is not None:
                self._drop(statement, reason)
        for statement in statements:  # what only calls a calibrator that is no longer there
            if isinstance(statement, ast.Expr) and self._calls_dead(statement.value):
                self._drop(statement, "it prepares the calibrator")
        for node in list(self._nodes_to_edit()):
            self._edit(node)
        self._name_half_types()
        self._close_blocks()
        self._drop_imports()

    def _name_half_types(self) -> None:
        """List where the script allowed float16 or bfloat16, which only the file's types can say now."""
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Attribute):
                is_flag = last_name(node.value) == "BuilderFlag" and not isinstance(
                    self.parents[node], ast.Attribute
                )
                names = node.attr if is_flag or node.attr == "fp16_mode" else ""
            else:
                names = node.arg or "" if isinstance(node, ast.keyword) else ""
            if (advice := HALF_TYPES.get(names)) and self._in_change(node):
                self._leave(node, ast.unparse(node), advice)

    # What is taken out as a whole.

    def _reason_to_drop(self, node: ast.stmt) -> str | None:
        if isinstance(node, ast.ClassDef) and node.name in self.calibrators:
            return "TensorRT 11 has no calibrators"
        if isinstance(node, ast.FunctionDef) and node.name in self.calibrators:
            return "it makes the calibrator"
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            return self._reason_to_drop_assignment(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self._reason_to_drop_call(node.value)
        if isinstance(node, ast.Assert) and self._has_removed_type(node):
            return "it asserts something of what is gone"
        return None

    def _reason_to_drop_assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> str | None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr in SETTINGS:
                return SETTINGS[target.attr]
            if (
                isinstance(target, ast.Attribute)
                and target.attr in SETTINGS_OF_TYPES
                and node.value is not None
                and self._is_type_of_tensorrt(node.value)
            ):
                return "types stand in the graph"
            flags = isinstance(target, ast.Attribute) and target.attr == "flags" and node.value is not None
            if flags and self._remaining_flags(node.value) == []:  # type: ignore[arg-type]
                return "precision flags are gone: types stand in the graph"
        if node.value is not None and self._is_calibrator_call(node.value):
            self.dead.update(map(ast.unparse, targets))
        return None

    def _reason_to_drop_call(self, call: ast.Call) -> str | None:
        name = last_name(call.func)
        if name in CALLS:
            return CALLS[name]
        setters = {"set_flag", "clear_flag", "set_preview_feature", "set_tactic_sources"}
        if name in setters and call.args and self._remaining_flags(call.args[0]) == []:
            return "the flag is gone: types stand in the graph"
        if any(isinstance(n, ast.Attribute) and n.attr == "int8_calibrator" for n in ast.walk(call.func)):
            return "it prepares the calibrator"
        return None

    def _calls_dead(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return ast.unparse(node.func.value) in self.dead
        return isinstance(node, ast.Call) and last_name(node.func) in self.calibrators

    # Edits inside of statements that stay.

    def _edit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._edit_call(node)
        elif isinstance(node, ast.Attribute):
            self._edit_attribute(node)
        elif isinstance(node, ast.Name) and node.id in self.calibrators and isinstance(node.ctx, ast.Load):
            if not isinstance(self.parents[node], ast.Call | ast.ClassDef):
                self._replace(node, "None", "the calibrator is gone")
        elif isinstance(node, ast.Assign):
            self._edit_assignment(node)
        elif isinstance(node, ast.Dict):
            self._edit_dict(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._edit_path(node, node.value)
        elif isinstance(node, ast.BinOp):
            self._edit_flags(node)

    def _edit_call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        if self._is_calibrator_call(node):
            self._replace(node, "None", "the calibrator is gone")
        elif name == "isinstance" and len(node.args) == 2 and last_name(node.args[1]) in self.calibrators:
            self._replace(node, "False", "the calibrator is gone")
        elif name == "create_network" and self._is_builder(node.func):
            self._type_strongly(node)
        elif name == "get_flag" and node.args and self._remaining_flags(node.args[0]) == []:
            self._replace(node, "False", "the flag is gone")
        elif name == "build_engine" and isinstance(node.func, ast.Attribute) and len(node.args) == 2:
            builder = self.source.text_of(node.func.value)
            network, config = map(self.source.text_of, node.args)
            self._engine_from(node, builder, f"{network}, {config}")
        elif name == "build_cuda_engine" and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            builder = self.source.text_of(node.func.value)
            self._engine_from(
                node, builder, f"{self.source.text_of(node.args[0])}, {builder}.create_builder_config()"
            )
        elif name in {"parse", "parse_from_file"} and "parser" in ast.unparse(node.func).lower():
            self.reads_onnx = self.reads_onnx or not is_argument_parser(node)
        elif name == "CreateConfig":
            self._edit_polygraphy(node)
        elif name == "NetworkFromOnnxPath" and all(k.arg != "strongly_typed" for k in node.keywords):
            end = self.source.span(node)[1] - 1
            comma = ", " if node.args or node.keywords else ""
            self._insert(end, f"{comma}strongly_typed=True", node, "TensorRT 11 takes typed networks only")
            self.reads_onnx = True

    def _engine_from(self, node: ast.Call, builder: str, arguments: str) -> None:
        text = f"{self.trt}.Runtime({builder}.logger).deserialize_cuda_engine("
        self._replace(
            node,
            f"{text}{builder}.build_serialized_network({arguments}))",
            "builders give serialized engines",
        )

    def _type_strongly(self, node: ast.Call) -> None:
        flag, reason = STRONGLY_TYPED.format(self.trt), "TensorRT 11 takes typed networks only"
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not arguments:
            self._insert(self.source.span(node)[1] - 1, flag, node, reason)
        elif isinstance(arguments[0], ast.Constant):
            self._replace(arguments[0], flag, reason)
        elif any(flagged := self._are_flags(arguments[0])) and not all(flagged):
            self._replace(arguments[0], f"{self.source.text_of(arguments[0])} | {flag}", reason)

    def _are_flags(self, name: ast.expr) -> list[bool]:
        """Return for each value that a variable gets whether it has a flag of networks."""
        text = ast.unparse(name)
        values = [
            n.value for n in ast.walk(self.source.tree)
            if (isinstance(n, ast.Assign) and any(ast.unparse(t) == text for t in n.targets))
            or (isinstance(n, ast.AugAssign) and ast.unparse(n.target) == text)
        ]  # fmt: skip
        return [
            any(last_name(a.value) == "NetworkDefinitionCreationFlag" for a in attributes(v)) for v in values
        ]

    def _is_builder(self, function: ast.expr) -> bool:
        """Return whether ``x.create_network`` is TensorRT's: the file has no such function, or knows `x`."""
        if not isinstance(function, ast.Attribute):
            return False
        own = any(
            isinstance(n, ast.FunctionDef) and n.name == function.attr for n in ast.walk(self.source.tree)
        )
        return not own or ast.unparse(function.value) in self._builders()

    def _builders(self) -> set[str]:
        names = set[str]()
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Assign) and makes_builder(node.value):
                names.update(map(ast.unparse, node.targets))
            elif isinstance(node, ast.withitem) and node.optional_vars and makes_builder(node.context_expr):
                names.add(ast.unparse(node.optional_vars))
        return names

    def _edit_attribute(self, node: ast.Attribute) -> None:
        if self._in_change(node):
            return
        if node.attr in NETWORK_FLAGS and last_name(node.value) == "NetworkDefinitionCreationFlag":
            _start, end = self.source.span(node)
            self._change(end - len(node.attr), end, "STRONGLY_TYPED", node, "networks are typed")
        elif node.attr in ALWAYS_TRUE and isinstance(node.ctx, ast.Load):
            self._replace(node, "True", "every device of TensorRT 11 has it")
        elif node.attr in TYPES:
            self._replace(node, "None", f"TensorRT 11 has no {node.attr}")
            self._leave(node, ast.unparse(node), "None stands in its place: look at what reads it")
        elif node.attr in OTHERS:
            self._leave(node, node.attr, f"use {OTHERS[node.attr]}")
        elif node.attr in SUCCESSORS and node.attr not in {"build_cuda_engine", "max_workspace_size"}:
            self._leave(node, node.attr, f"use {successor(node.attr)}")
        elif node.attr in SETTINGS and isinstance(node.ctx, ast.Load) and node.attr != "max_batch_size":
            self._leave(node, ast.unparse(node), f"take it out: {SETTINGS[node.attr]}")
        elif node.attr in FLAGS.get(last_name(node.value), ()):
            self._leave(node, ast.unparse(node), "take it out: types stand in the graph")

    def _edit_assignment(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "max_workspace_size":
            owner, size = self.source.text_of(target.value), self.source.text_of(node.value)
            if "config" in owner.lower():
                pool = f"{self.trt}.MemoryPoolType.WORKSPACE"
                self._replace(
                    node, f"{owner}.set_memory_pool_limit({pool}, {size})", "limits are set by pool"
                )
            else:
                self._drop(node, "limits are the configuration's")

    def _edit_dict(self, node: ast.Dict) -> None:
        """Take out the entries of a table whose values are flags that are gone."""
        if not any(self._is_gone_flag(value) for value in node.values):
            return
        remaining = [
            f"{self.source.text_of(key)}: {self.source.text_of(value)}" if key is not None
            else f"**{self.source.text_of(value)}"
            for key, value in zip(node.keys, node.values, strict=True) if not self._is_gone_flag(value)
        ]  # fmt: skip
        self._replace(node, "{" + ", ".join(remaining) + "}", "the flags are gone: types stand in the graph")

    def _edit_path(self, node: ast.Constant, value: str) -> None:
        if self.onnx and value.replace("\\", "/").rpartition("/")[2] == self.onnx and "\n" not in value:
            folder = value[: len(value) - len(self.onnx)]
            self._replace(node, repr(folder + self.qdq), "the script reads the Q/DQ file")

    def _edit_flags(self, node: ast.BinOp) -> None:
        """Take flags that are gone out of a sum of flags."""
        if isinstance(self.parents[node], ast.BinOp) or not isinstance(node.op, ast.BitOr):
            return
        remaining = self._remaining_flags(node)
        if remaining is not None and len(remaining) < len(terms(node)):
            text = " | ".join(map(self.source.text_of, remaining)) or "0"
            self._replace(node, text, "the flag is gone: types stand in the graph")

    def _edit_polygraphy(self, node: ast.Call) -> None:
        remaining = [k for k in node.keywords if k.arg not in POLYGRAPHY_KEYWORDS]
        if len(remaining) < len(node.keywords):
            texts = [*map(self.source.text_of, node.args), *map(self.source.text_of, remaining)]
            text = f"{self.source.text_of(node.func)}({', '.join(texts)})"
            self._replace(node, text, "types and scales stand in the graph")

    # What the tree says.

    def _nodes_to_edit(self) -> Iterator[ast.AST]:
        stack: list[ast.AST] = [self.source.tree]
        while stack:
            node = stack.pop()
            if node in self.gone:
                continue
            yield node
            stack += ast.iter_child_nodes(node)

    def _name_of_tensorrt(self) -> str:
        for node in ast.walk(self.source.tree):
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name == "tensorrt":
                    return alias.asname or "tensorrt"
        return "trt"

    def _find_imported_calibrators(self) -> frozenset[str]:
        """Return the names of calibrators that are imported: known ones, and those given to a config."""
        imports = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(self.source.tree) if isinstance(node, ast.ImportFrom) for alias in node.names
        }  # fmt: skip
        names = {
            name for name, (module, original) in imports.items()
            if original in self.modules.get(module.rpartition(".")[2], ())
            or (original == "Calibrator" and module.partition(".")[0] == "polygraphy")
            or (module == "tensorrt" and original in CALIBRATORS)
        }  # fmt: skip
        for node in ast.walk(self.source.tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Attribute)
                and node.targets[0].attr == "int8_calibrator"
                and isinstance(node.value, ast.Call)
                and last_name(node.value.func) in imports
            ):
                names.add(last_name(node.value.func))
        return frozenset(names)

    def _is_calibrator_call(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute):
            owner = last_name(node.func.value)
            return node.func.attr in self.modules.get(owner, ()) or node.func.attr in CALIBRATORS
        return last_name(node.func) in self.calibrators

    def _has_removed_type(self, node: ast.AST) -> bool:
        return any(a.attr in TYPES for a in attributes(node))

    def _is_type_of_tensorrt(self, node: ast.expr) -> bool:
        return any(last_name(a.value) in {self.trt, "DataType"} for a in attributes(node))

    def _is_gone_flag(self, node: ast.AST) -> bool:
        return any(a.attr in FLAGS.get(last_name(a.value), ()) for a in attributes(node))

    def _remaining_flags(self, node: ast.expr) -> list[ast.expr] | None:
        """Return the terms of a sum of flags without those that are gone; None where none is gone."""
        every = terms(node)
        remaining = [term for term in every if not self._is_gone_flag(term)]
        if len(remaining) == len(every):
            return None
        return remaining

    # Recording.

    def _in_change(self, node: ast.AST) -> bool:
        start, end = self.source.span(node)
        return any(change.start <= start and end <= change.end for change in self.changes)

    def _leave(self, node: ast.AST, what: str, advice: str) -> None:
        self.open_points.append(OpenPoint(node.lineno, what, advice))  # type: ignore[attr-defined]

    def _change(self, start: int, end: int, text: str, node: ast.AST, reason: str) -> None:
        self.changes.append(Replacement(start, end, text, node.lineno, reason))  # type: ignore[attr-defined]

    def _replace(self, node: ast.AST, text: str, reason: str) -> None:
        start, end = self.source.span(node)
        self._change(start, end, text, node, reason)

    def _insert(self, place: int, text: str, node: ast.AST, reason: str) -> None:
        self._change(place, place, text, node, reason)

    def _drop(self, node: ast.stmt, reason: str) -> None:
        self.gone.add(node)
        start, end = self.source.lines_of(node)
        if isinstance(node, ast.ClassDef | ast.FunctionDef):  # with the empty lines behind it
            rest = self.source.data[end:]
            blank = rest[: len(rest) - len(rest.lstrip())]
            end += blank.rfind(b"\n") + 1
        alone = (start, end) != self.source.span(node)
        self._change(start, end, "" if alone else "pass", node, reason)

    def _close_blocks(self) -> None:
        """Put ``pass`` into blocks that nothing is left of."""
        for node in ast.walk(self.source.tree):
            if node in self.gone:
                continue
            for name in _BODIES:
                body = getattr(node, name, None)
                if isinstance(body, list) and body and all(statement in self.gone for statement in body):
                    place = self.source.span(body[0])[0]
                    change = next(c for c in self.changes if c.start <= place < c.end)
                    if change.text:
                        continue
                    line = self.source.data.rfind(b"\n", 0, place) + 1
                    indent = self.source.data[line:place].decode()
                    self.changes.remove(change)
                    self.changes.append(replace(change, text=f"{indent}pass\n"))

    def _drop_imports(self) -> None:
        """Take names out of imports that only the old text read."""
        used = {n.id for n in self._nodes_to_edit() if isinstance(n, ast.Name) and not self._in_change(n)}
        were_used = {n.id for n in ast.walk(self.source.tree) if isinstance(n, ast.Name)}
        for node in list(self._nodes_to_edit()):
            if not isinstance(node, ast.ImportFrom) or node.module == "__future__":
                continue
            names = [alias.asname or alias.name for alias in node.names]
            remaining = [
                alias for alias, name in zip(node.names, names, strict=True)
                if name not in self.imported and (name in used or name not in were_used)
            ]  # fmt: skip
            if len(remaining) == len(names):
                continue
            if not remaining:
                self._drop(node, "only what is gone used it")
                continue
            texts = [alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in remaining]
            module = "." * node.level + (node.module or "")
            self._replace(
                node, f"from {module} import {', '.join(texts)}", "only what is gone used the others"
            )
        self._close_blocks()
