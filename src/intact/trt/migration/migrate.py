"""Takes an implicit int8 network to TensorRT 11: a Q/DQ file, the edited scripts, and what that changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from intact import graph, ptq
from intact.errors import FileFormatError, QuantValueError
from intact.graph import Model, Source
from intact.placement import Finding, check
from intact.ptq.data import Input
from intact.reading import read_bytes
from intact.trt.migration.checkpoint_recipe import pin_weights
from intact.trt.migration.engines import Answers, Engines, Feeds, build_engines
from intact.trt.migration.implicit_recipe import ImplicitRecipe
from intact.trt.migration.insert_parser import parse_before_build
from intact.trt.migration.script_edits import ScriptEdit, edit_script
from intact.trt.migration.source_text import SourceText, write_patch
from intact.trt.migration.syntax_queries import calibrator_classes, mentions_removed

SAMPLES = 8
"""Batches that are measured, where the caller says nothing."""
MODULES = 50
"""The most local modules of a script that are read."""


@dataclass
class Migration:
    """Holds everything that `migrate` made and measured.

    Attributes:
        recipe: What it was made from.
        model: The graph with Q/DQ pairs.
        from_cache: Names that did not match, and the number of pairs.
        findings: What stands in the way of TensorRT's parser; empty: nothing.
        answers: What was measured.
        data: What it was measured on, in words.
        edits: The scripts that were rewritten.
    """

    recipe: ImplicitRecipe
    model: Model
    from_cache: ptq.FromCache
    findings: list[Finding]
    answers: Answers
    data: str
    edits: list[ScriptEdit] = field(default_factory=list)

    @property
    def patch(self) -> str:
        """Return the edits as one patch for ``patch -p1`` in the script's folder, or ""."""
        return "".join(write_patch(edit.old, edit.new, edit.name) for edit in self.edits)


def migrate(
    recipe: ImplicitRecipe,
    *,
    data: Any = None,
    num_batches: int | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Migration:
    """Make the Q/DQ file of a recipe, build both engines, and measure how their answers differ.

    Args:
        recipe: What the implicit engine was built from.
        data: Inputs to measure on, as `intact.ptq.open_data` takes them; None: the batches of the recipe, or
            noise where it has none.
        num_batches: Use so many batches at most, of noise 8; None: 8.
        include, exclude: As for `intact.quantize`.
    Raises:
        CalibrationError: The recipe has no scale that the model needs.
        UnsupportedError: A network does not build.
    """
    in_float = (*exclude, *recipe.floats)
    done = ptq.quantize_from_cache(recipe.model, recipe.cache, include=include, exclude=in_float)
    model = done.result.model
    pin_weights(model, recipe.weights)
    with TemporaryDirectory() as folder:
        written = Path(folder) / "model.onnx"
        graph.save(model, written)  # weights beyond 2 GiB lie beside it
        engines = build_engines(recipe, written)
        batches, words = _inputs(engines, recipe, data, num_batches or SAMPLES)
        answers, findings = engines.measure(batches), check(graph.load(written, any_opset=True))
    return Migration(recipe, model, done, findings, answers, words)


def _inputs(engines: Engines, recipe: ImplicitRecipe, data: Any, count: int) -> tuple[list[Feeds], str]:
    ports = engines.explicit.inputs
    if data is not None:
        inputs = [Input(port.name, np.dtype(port.dtype), port.shape) for port in ports]
        fixed = ports[0].shape[0] if ports and ports[0].shape else None
        size = fixed if isinstance(fixed, int) else None
        source = ptq.open_data(data, inputs, batch_size=size, num_batches=count)
        batches: list[Feeds] = list(source.batches)
        return batches, f"{len(batches)} batches of {source.name}"
    if recipe.batches:
        names = [port.name for port in ports]
        batches = [feeds for feeds in recipe.batches[:count] if sorted(feeds) == sorted(names)]
        if batches:
            return batches, f"the first {len(batches)} batches of the calibrator"
    rng, count = np.random.default_rng(0), min(count, SAMPLES)
    batches = [{port.name: _noise(rng, port) for port in ports} for _ in range(count)]
    return batches, f"{count} batches of noise: give --data for figures on real inputs"


def _noise(rng: np.random.Generator, port: Any) -> Any:
    shape = tuple(n if isinstance(n, int) else 1 for n in port.shape)
    dtype = np.dtype(port.dtype)
    return (rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)).astype(dtype)


def edit_project(script: Path, qdq: str, onnx: str, *, is_parsed: bool = True) -> list[ScriptEdit]:
    """Rewrite a script and the modules beside it that it imports. Nothing of them runs.

    Names are relative to the script's folder; to the one above where a module there is imported, too.

    Args:
        script: Its path.
        qdq: Name of the Q/DQ file that is parsed from now on.
        onnx: Name of the float file that it parsed; "" where that is not calibrators.
        is_parsed: Whether the network came from a file; where it was built layer by layer, a parser is added.
    Raises:
        FileFormatError: The script is no Python 3.
    """
    files = _project(script)
    root = script.parent if all(p.is_relative_to(script.parent) for p in files) else script.parent.parent
    classes = {path.stem: calibrator_classes(source.tree) for path, source in files.items()}
    calibrators = {name: names for name, names in classes.items() if names}
    edits = []
    for path, source in files.items():
        if path == script or mentions_removed(source.tree) or _imports(source.tree) & calibrators.keys():
            name = path.relative_to(root).as_posix()
            edit = edit_script(read_bytes(path), name, qdq, onnx=onnx, calibrators=calibrators)
            if not is_parsed:
                edit.new, added = parse_before_build(edit.new, name, qdq)
                edit.changes += added
            if edit.new != edit.old or edit.open_points:
                edits.append(edit)
    return edits


def _project(script: Path) -> dict[Path, SourceText]:
    """Parse a script, and the modules in its folder that it imports, and those that they import.

    Where the script puts the folder above its own on the path, as NVIDIA's samples do, modules there count.
    """
    files = {script: SourceText.parse(read_bytes(script), str(script))}
    roots = [script.parent]
    if b"sys.path" in files[script].data and re.search(rb"os\.pardir|[\"']\.\.", files[script].data):
        roots.append(script.parent.parent)
    waiting = [script]
    while waiting and len(files) < MODULES:
        here = waiting.pop()
        for path in _local_modules(here, files[here].tree, roots):
            if path in files:
                continue
            try:
                files[path] = SourceText.parse(read_bytes(path), str(path))
            except FileFormatError:  # a module that Python cannot import either
                continue
            waiting.append(path)
    return files


def _local_modules(here: Path, tree: ast.Module, roots: Sequence[Path]) -> Iterable[Path]:
    for name in sorted(_module_names(tree)):
        parts = name.split(".")
        for folder in dict.fromkeys((here.parent, *roots)):
            for path in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
                if path.is_file() and path.resolve().is_relative_to(roots[-1].resolve()):
                    yield path


def _module_names(tree: ast.Module) -> set[str]:
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names.update({module} - {""})
            names.update(f"{module}.{alias.name}".strip(".") for alias in islice(node.names, 20))
    return {name for name in names if all(part.isidentifier() for part in name.split("."))}


def _imports(tree: ast.Module) -> set[str]:
    return {name.rpartition(".")[2] for name in _module_names(tree)}


def require_one_build(builds: Sequence[Any], number: int | None) -> Any:
    """Return the build that is meant.

    Raises:
        QuantValueError: There are several, and none was chosen; or there is no such one.
    """
    if number is None and len(builds) > 1:
        raise QuantValueError(
            "--build", f"{len(builds)} builds with implicit int8", "one", f"choose 0 to {len(builds) - 1}"
        )
    if number is not None and not 0 <= number < len(builds):
        raise QuantValueError("--build", str(number), f"0 to {len(builds) - 1}", "choose one of them")
    return builds[number or 0]


def name_of(model: Source) -> str:
    """Return the name of the file that a model is; "" of bytes and graphs."""
    return Path(model).name if isinstance(model, str | Path) else ""
