"""Find the call that torch's exporter cannot write as ONNX, to name it or to write it as an opaque node."""

from __future__ import annotations

import itertools
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, fx

from intact.torch.private_torch import REGISTER_OPERATOR, OpOverload, pytree
from intact.torch.tracing.user_frames import NOT_THE_USERS

__all__ = ["OPAQUE", "Opaque", "Untranslated", "find_untranslated", "translate_complex"]

OPAQUE = "Opaque"
"""Operator of domain "intact" that stands for such a call in graphs that are analysed, and not run."""

_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in .+\n\s*(?P<code>.+)')


@dataclass(frozen=True)
class Untranslated:
    """Describes a call of an operator that torch's exporter cannot write.

    Attributes:
        target: The operator, as the graph calls it.
        module: Path of the module whose forward calls it.
        line: The user's line: "net.py:12, `y = x.median(1)[0]`"; "" where it is unknown.
        outputs: How many tensors each call of it in the graph returns, in order.
        complex: Whether these calls read complex numbers, for which the exporter has other translations.
        written_by: The translation that writes other calls of it; None where there is none.
    """

    target: Any
    module: str
    line: str
    outputs: tuple[int, ...]
    complex: bool = False
    written_by: Callable[..., Any] | None = None

    @property
    def operator(self) -> str:
        """Return its name: "aten.median.dim"."""
        return str(self.target)

    def opaque_writer(self) -> Callable[..., Any]:
        """Return the writer of opaque nodes for its calls, for a `custom_translation_table`."""
        import onnx_ir as ir
        from onnxscript import evaluator as evaluators  # a second of import time: training does not pay it

        calls = itertools.count()  # or equal nodes become one

        def write(*args: Any, **kwargs: Any) -> Any:
            evaluator: Any = evaluators.default()
            call, before = next(calls), len(evaluator.nodes)
            if self.written_by is not None:
                try:
                    return self.written_by(*args, **kwargs)
                except Exception:  # whatever it met before
                    del evaluator.nodes[before:]
            inputs = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, ir.Value)]
            output_count = self.outputs[call % len(self.outputs)]
            attributes = [ir.AttrString("operator", self.operator), ir.AttrInt64("call", call)]
            node = ir.Node("intact", OPAQUE, inputs, attributes, num_outputs=output_count)
            evaluator.nodes.append(node)
            return node.outputs[0] if output_count == 1 else node.outputs

        return write


def find_untranslated(error: BaseException) -> Untranslated | None:
    """Return the call at which torch's exporter stopped; None where the error is another one."""
    stop = next(filter(None, map(_find_stop, _causes(error))), None)
    if stop is None:
        return None
    node, translation = stop
    if not isinstance(node.target, OpOverload):
        return None
    same = (other for other in node.graph.nodes if other.target is node.target)
    kind = _reads_complex(node)
    outputs = tuple(_number_of_outputs(other) for other in same if _reads_complex(other) == kind)
    return Untranslated(node.target, _module_of(node), _line_of(node), outputs, kind, translation)


class Opaque:
    """Writes calls of one operator: those that read complex numbers, the others, or both.

    A `custom_translation_table` does not distinguish complex numbers. Inside `translate_complex`, these
    writers do.
    """

    def __init__(self, by_kind: dict[bool, Callable[..., Any]] | None = None) -> None:
        self.by_kind: dict[bool, Callable[..., Any]] = by_kind or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.by_kind[False](*args, **kwargs)


@contextmanager
def translate_complex() -> Iterator[None]:
    """Make the exporter ask each `Opaque` only about calls that it has a writer for.

    It replaces a method of torch's registry, which takes the argument `is_complex` that the table lacks.
    """

    def wrap(register: Any) -> Any:
        def register_op(registry: Any, target: Any, function: Any, is_complex: bool = False) -> None:
            if not isinstance(function, Opaque):
                register(registry, target, function, is_complex)
                return
            for kind, write in function.by_kind.items():
                register(registry, target, write, kind)

        return register_op

    with REGISTER_OPERATOR.wrapping(wrap):
        yield


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _find_stop(error: BaseException) -> tuple[fx.Node, Callable[..., Any] | None] | None:
    """Return the node at which the exporter stopped, and the translation that it had called.

    The error names the node in its text only, but the exporter's frames hold both.
    """
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        node = frame.f_locals.get("node")
        if isinstance(node, fx.Node) and node.op == "call_function":
            return node, frame.f_locals.get("onnx_function")
    return None


def _module_of(node: fx.Node) -> str:
    """Return a module's path from ``{key: (path, class)}``, the innermost last; "conv@1" is its
    second call.
    """
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return re.sub(r"@\d+", "", str(stack[-1][0])) if stack else ""


def _line_of(node: fx.Node) -> str:
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    own = [frame for frame in frames if not frame["file"].startswith(NOT_THE_USERS)]
    if not own:
        return ""
    return f"{Path(own[-1]['file']).name}:{own[-1]['line']}, `{own[-1]['code'].strip()}`"


def _number_of_outputs(node: fx.Node) -> int:
    value = node.meta.get("val")
    return len(value) if isinstance(value, (tuple, list)) else 1


def _reads_complex(node: fx.Node) -> bool:
    values = (source.meta.get("val") for source in node.all_input_nodes)
    return any(isinstance(value, Tensor) and value.is_complex() for value in values)
