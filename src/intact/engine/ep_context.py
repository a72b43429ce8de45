"""Write engines as ONNX files that ONNX Runtime runs through INTact's execution provider."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from intact._version import __version__
from intact.atomic import check_target, together
from intact.engine.engine import Engine
from intact.engine.steps import STRING
from intact.errors import UnsupportedError

PROVIDER = "INTactExecutionProvider"
"""The name under which `libintact_onnxruntime` registers its execution provider."""


def save_ep_context(
    engine: Engine, model: str | os.PathLike[str], path: str | os.PathLike[str], *, is_external: bool = False
) -> Path | None:
    """Write an ONNX file with the model's inputs and outputs, and one EPContext node for the engine's plan.

    ONNX Runtime 1.23 and later runs it in any language, once `libintact_onnxruntime` is registered
    (docs/how-to/onnx-runtime-provider.md).

    Args:
        engine: What `intact.compile` made of the model. Nothing in it may need Python.
        model: The model's file.
        path: The file to write.
        is_external: Write the plan beside the file, as ``<path>.plan``, which processes map and share.
            Otherwise the node holds it.

    Returns:
        The path of the plan where it is external.

    Raises:
        UnsupportedError: Names what only Python or ONNX Runtime runs, an element type that the operator
            lacks, or a plan that is too large to be embedded.
        FileAccessError: The file cannot be written; the old ones stay, and nothing else.
    """
    # Not above: plans are read and run without ONNX.
    from intact.graph import CompiledValue, compose_ep_context, read_model, write_model

    require_native(engine, model, "an EPContext node holds nothing else")
    target = Path(os.path.realpath(path))
    plan_path = target.with_name(target.name + ".plan")
    check_target(path)

    def compose(context: bytes) -> bytes:
        inputs, outputs = (
            [CompiledValue(port.name, port.dtype, port.shape) for port in ports]
            for ports in (engine.inputs, engine.outputs)
        )
        return compose_ep_context(
            read_model(model), inputs, outputs, context=context, is_embedded=not is_external,
            provider=PROVIDER, version=__version__,
        )  # fmt: skip

    if is_external:
        composed = compose(plan_path.name.encode())
        with together():  # the plan appears first: a model never names one that is not there
            engine.save(plan_path)
            write_model(composed, target)
        return plan_path
    with TemporaryDirectory() as folder:
        engine.save(Path(folder, "plan"))
        context = Path(folder, "plan").read_bytes()
    write_model(compose(context), path)
    return None


def require_native(engine: Engine, model: str | os.PathLike[str], reason: str) -> None:
    """Refuse an engine whose plan the C library does not run.

    Args:
        engine: The engine.
        model: Names the file in the error.
        reason: Why native steps alone will do.

    Raises:
        UnsupportedError: Names the nodes that ONNX Runtime or Python would run, or the tensors of strings.
    """
    plan = engine.plan
    foreign = [f"{' '.join(s.nodes) or s.name} ({s.kind})" for s in plan.steps if not s.native]
    foreign += [f"{tensor.name} (strings)" for tensor in plan.tensors.values() if tensor.dtype == STRING]
    if plan.model and not foreign:
        foreign = ["sizes that decide what runs"]
    if foreign:
        more = f" and {len(foreign) - 10} more" if len(foreign) > 10 else ""
        raise UnsupportedError(
            f"file '{os.fspath(model)}'", f"parts without native steps: {', '.join(foreign[:10])}{more}",
            f"native steps alone: {reason}",
            "change these nodes, fix the sizes of the inputs by --shapes, or build a plan for Python",
        )  # fmt: skip
