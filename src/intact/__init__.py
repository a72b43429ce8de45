"""INTact: INT activations and weights, accuracy intact; what you simulate is what you run.

The front door. It loads NumPy alone; the frameworks load with the first call that needs them.

>>> import intact
>>> intact.QuantSpec("int8", axis=0)
QuantSpec(format=Format(name='int8', bits=8, signed=True, qmin=-128, qmax=127, is_float=False), axis=0, \
block_size=None, symmetric=True, narrow=False)
>>> print(intact.QuantSpec("uint8", symmetric=False))
uint8 per-tensor asymmetric
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, overload

from intact._installation import c_headers, c_library, onnxruntime_library, require_own_folder
from intact._version import __version__
from intact.errors import IntactError, NotQuantizedWarning, QuantValueError
from intact.free_memory import gc_frozen
from intact.spec import Format, QuantSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn  # noqa: TID251

    from intact.engine import Backend, Engine, Options, Plan
    from intact.graph import Source
    from intact.ptq import QuantizedModel
    from intact.ptq.analysis import SensitivityAnalysis
    from intact.timings import Timings
    from intact.torch import GraphModeResult
    from intact.tuning import TuneResult

require_own_folder()

__all__ = [
    "Format",
    "IntactError",
    "QuantSpec",
    "__version__",
    "analyze",
    "calibrate",
    "compile",
    "get_include",
    "get_library",
    "get_onnxruntime_library",
    "load",
    "quantize",
    "run_reference",
    "tune",
    "untrusted_files",
]


def quantize(model: Any, data: Any = None, **options: Any) -> Any:
    """Quantize `model` after training, with calibration data.

    Args:
        model: An ONNX model (a path, the file's bytes, a ModelProto, an onnx-ir model), or a
            `torch.nn.Module`.
        data: Calibration data: see `intact.ptq.open_data` for ONNX, `intact.torch.quantize` for modules; a
            module may go without, with an ``example``: it then gets quantizers, and ranges by `calibrate`.
        **options: Passed on: see `intact.ptq.quantize` and `intact.torch.quantize`. With ``block=32``,
            ``activations="dynamic-int8"`` or a method of weights ("rtn", "gptq", "awq") weights alone get
            codes, in blocks: see `intact.ptq.blocks.quantize_weights`, and for modules
            `intact.torch.quantize_weights`; that needs no data. ``modelopt="NVFP4_DEFAULT_CFG"`` does what a
            configuration of NVIDIA's ModelOpt says, by name or as its dict.

    Returns:
        For ONNX an `intact.ptq.QuantizedModel` with `save`, `explain` and `proto`, or an
        `intact.ptq.blocks.BlockQuantizedModel`, or an `intact.ptq.ModelOptModel`; for a module what
        `intact.torch.quantize` returns, or an `intact.torch.BlockQuantizedModule`.

    Raises:
        QuantValueError: There are no data for an ONNX model, or neither data nor example for a module.
    """
    with gc_frozen():  # imports make many objects that stay
        from intact.ptq import options_with_modelopt, quantize_modelopt, quantize_weights, wants_blocks
    if options.get("modelopt") is not None:
        options = options_with_modelopt(model, **options)
    if "modelopt" in options:
        return quantize_modelopt(model, data, options.pop("modelopt"), **options)
    if _is_module(model):
        from intact.torch import quantize as quantize_module
        from intact.torch import quantize_weights as quantize_module_weights

        if wants_blocks(options):
            return quantize_module_weights(model, data, **options)
        return quantize_module(model, data, **options)
    if wants_blocks(options):
        return quantize_weights(model, data, **options)
    if data is None:
        raise QuantValueError(
            "quantize: data", "none", "inputs like those of its later work",
            "pass a folder of images, an .npy, .npz or .py file, arrays, or batches",
        )  # fmt: skip
    from intact.ptq import quantize as quantize_onnx

    result = quantize_onnx(model, data, **options)
    result.compare = _compare_file
    return result


def calibrate(model: Any, data: Any, **options: Any) -> Any:
    """Collect the statistics of `model` over `data` that ranges are chosen from, now and later.

    Args:
        model: An ONNX model (a path, the file's bytes, a ModelProto, an onnx-ir model), or a
            `torch.nn.Module` that holds quantizers, whose ranges are then set.
        data: Calibration data, as for `quantize`; an iterable of batches for a module.
        **options: Passed on: see `intact.ptq.calibrate` and `intact.torch.calibrate`.

    Returns:
        An `intact.calib.Calibration`; for a module an `intact.torch.CalibrationResult`, which has one.
    """
    if _is_module(model):
        from intact.torch import calibrate as calibrate_module

        return calibrate_module(model, data, **options)
    from intact.ptq import calibrate as calibrate_onnx

    return calibrate_onnx(model, data, **options)


def analyze(model: Source, data: Any, **options: Any) -> SensitivityAnalysis:
    """Quantize an ONNX model, and measure what each of its tensors costs the outputs.

    Args:
        model: A path, the file's bytes, a ModelProto, an onnx-ir model.
        data: Calibration data, as for `quantize`.
        **options: Passed on: see `intact.ptq.analysis.analyze`; those of `quantize` among them.

    Returns:
        An `intact.ptq.analysis.SensitivityAnalysis`, with ``parts``, ``findings`` and `save`.

    Raises:
        QuantValueError: `model` is a `torch.nn.Module`.
    """
    if _is_module(model):
        raise _no_module("analyze")
    from intact.ptq.analysis import analyze as analyze_onnx

    return analyze_onnx(model, data, **options)


def tune(model: Source, data: Any, **options: Any) -> TuneResult:
    """Choose a format for each layer of an ONNX model: as fast as an accuracy target allows.

    Args:
        model: A path, the file's bytes, a ModelProto, an onnx-ir model.
        data: Calibration data, as for `quantize`.
        **options: Passed on: ``evaluate``, ``max_drop`` and all others of `intact.tuning.tune`; those of
            `quantize` among them.

    Returns:
        An `intact.tuning.TuneResult`, with `save`, ``trials`` and ``layers``.

    Raises:
        QuantValueError: `model` is a `torch.nn.Module`.
    """
    if _is_module(model):
        raise _no_module("tune")
    from intact.tuning import tune as tune_onnx

    return tune_onnx(model, data, **options)


@overload
def compile(
    model: nn.Module | GraphModeResult,
    example: Any,
    *,
    dynamic_batch: bool = True,
    dynamic_shapes: Any = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int | None = None,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
    tune_seconds: float | None = None,
    timing_cache: str | os.PathLike[str] | Timings | None = None,
) -> Engine: ...


@overload
def compile(
    model: Source | QuantizedModel | Plan,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int | None = None,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
    tune_seconds: float | None = None,
    timing_cache: str | os.PathLike[str] | Timings | None = None,
) -> Engine: ...


def compile(
    model: Any, example: Any = None, *, dynamic_batch: bool = True, dynamic_shapes: Any = None, **options: Any
) -> Engine:
    """Build the engine that runs `model` in int8, exactly as its Q/DQ pairs say.

    Args:
        model: A Q/DQ model: an ONNX model (a path, the file's bytes, a ModelProto, an onnx-ir model), or the
            path of a plan file; a `torch.nn.Module` with quantizers; or what `quantize` returned for one
            of them.
        example: For a module: one input, to trace it with (a tensor, a tuple of positional or a dict of
            named arguments).
        dynamic_batch: For a module: leave the first dimension of the inputs that share it open.
        dynamic_shapes: For a module: what else stays open, as `torch.export.export` takes it.
        shapes: Sizes of inputs, by name: {"x": (1, 3, 224, 224)}. The engine is for these alone, with all
            that follows from them worked out; None: for all sizes that the model takes.
        threads: Threads of a run, the caller's included; None: as many as the process may use.
        deterministic: Run the parts that ONNX Runtime has on one thread each, so that the outputs are the
            same for any number of threads. Else they have all, and their last bits depend on how many.
        backend: "cpu": native kernels; "reference": plain NumPy, slow, with the same codes.
        tune_seconds: Time about so long which kernel is fastest for each layer here, and take it; 1 is enough
            for ResNet-50. None: a cost model chooses, and nothing is timed. No bit depends on it.
        timing_cache: What was timed before: a file, which gets what is timed now, too, or
            `intact.timings.Timings`. What it knows is not timed again: the same cache gives the same choice.

    Returns:
        An `intact.engine.Engine`: ``engine(x)``, ``engine.run({name: x})``, ``profile``, ``save``.

    Raises:
        QuantValueError: A module without an example, or with nothing quantized; an example for a file.

    Warns:
        NotQuantizedWarning: A model without Q/DQ pairs: it runs, in float. Or one with layers that quantize
            their input while they run, where they run in ONNX Runtime.
    """
    results = ("GraphModeResult", "BlockQuantizedModule")
    if _is_module(model) or any(_is_result(model, "intact.torch", name) for name in results):
        from intact.torch import compile as compile_module

        open_sizes = {"dynamic_batch": dynamic_batch, "dynamic_shapes": dynamic_shapes}
        return compile_module(model, example, **open_sizes, **options)
    if example is not None or not dynamic_batch or dynamic_shapes is not None:
        raise QuantValueError(
            "example" if example is not None else "dynamic_shapes" if dynamic_batch else "dynamic_batch",
            f"one for a {type(model).__name__}, which is no torch.nn.Module", "none: it is for modules",
            "leave it out",
        )  # fmt: skip
    with gc_frozen():
        from intact.engine import compile as build
    engine = build(_onnx_model(model), **options)
    if engine.plan.is_unquantized or engine.plan.dynamic:
        name = os.fspath(model) if isinstance(model, str | os.PathLike) else "model.onnx"
        reason = (
            f"layers of {name} quantize their input while they run, and are left to ONNX Runtime"
            if engine.plan.dynamic
            else f"nothing in {name} is quantized, so that it runs in float"
        )
        warnings.warn(
            f"{reason}. Fix: quantize first:"
            f" intact quantize {name} --data photos -o int8.onnx, or intact.quantize(model, data)",
            NotQuantizedWarning,
            stacklevel=2,
        )
    return engine


def untrusted_files(is_on: bool = True) -> AbstractContextManager[None]:
    """Read files of strangers in a limited process first: for ``with intact.untrusted_files():``.

    The libraries that parse ONNX files, tokenizers and grammars are C++ and Rust, and some bytes end their
    process. Inside of the block, `compile`, `quantize`, `lm.load` and whatever else reads such a file let
    another process try it, with bounds of time and memory, and go on if that one survives.

    Args:
        is_on: Whether they do.
    """
    from intact.processes import untrusted_files as read_untrusted_files

    return read_untrusted_files(is_on)


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    copy: bool = False,
    deterministic: bool = False,
    backend: str | Callable[[Options], Backend] = "cpu",
) -> Engine:
    """Return the engine of a plan file, which `Engine.save` or ``intact build`` wrote. Nothing in it is
    executed.

    Args:
        path: The plan file.
        threads, deterministic, backend: As for `compile`.
        copy: Read the file into memory. Otherwise it is mapped, and must not be overwritten in place while
            the engine lives; saving over it, as INTact does, is always safe.

    Returns:
        An `intact.engine.Engine`.
    """
    from intact.engine import load as load_plan

    return load_plan(path, threads=threads, copy=copy, deterministic=deterministic, backend=backend)


def get_include() -> str:
    """Return the folder of `intact.h`, the C interface: ``cc -I$(python -c "import intact; ...")``.

    Returns:
        A path.
    Raises:
        UnsupportedError: This installation has no C library.
    """
    return str(c_headers())


def get_library() -> str:
    """Return the path of the shared C library, which runs plan files without Python
    (docs/how-to/run-in-c.md).

    Returns:
        A path: `libintact.so.0` on Linux.
    Raises:
        UnsupportedError: This installation has no C library.
    """
    return str(c_library())


def get_onnxruntime_library() -> str:
    """Return the path of INTact's execution provider for ONNX Runtime, to be registered there under any name
    (docs/how-to/onnx-runtime-provider.md).

    Returns:
        A path: `libintact_onnxruntime.so` on Linux.
    Raises:
        UnsupportedError: This installation has no C library.
    """
    return str(onnxruntime_library())


def run_reference(model: Source | QuantizedModel | Plan, inputs: Any) -> dict[str, NDArray[Any]]:
    """Return the normative answers of a Q/DQ model: what its file means, by the integer reference in NumPy.

    The engine gives these answers bit for bit. Another runtime may round the file's float steps differently
    (docs/numerics.md, N33). It is slow: a few seconds for one image through ResNet-50. Parts of the plan that
    have no steps of ours run in ONNX Runtime, on one thread, as they do in the engine.

    Args:
        model: An ONNX model (a path, the file's bytes, a ModelProto, an onnx-ir model), the path of a plan
            file, a plan, or what `quantize` returned for an ONNX model.
        inputs: Arrays by name: NumPy's, or anything with DLPack on the CPU; or the array itself where the
            model has one input.

    Returns:
        The outputs by name.

    Raises:
        QuantValueError: `model` is a `torch.nn.Module`, or an input is missing, unknown, or of another dtype
            or shape than the model's.
        FileFormatError: The file is damaged.
        UnsupportedError: ONNX Runtime cannot run a part that is left to it.
    """
    if _is_module(model):
        raise QuantValueError(
            "run_reference: model", "a torch.nn.Module", "a Q/DQ file of it",
            "export it first: intact.torch.export(module, example, 'model.onnx')",
        )  # fmt: skip
    from intact.engine import run_reference as run

    return run(_onnx_model(model), inputs)


def _compare_file(model: Any, samples: Any) -> Any:
    """Compare a quantized file with its engine, which is imported when a report first asks for it."""
    from intact.engine.compare import compare_file

    return compare_file(model, samples)


def _no_module(what: str) -> QuantValueError:
    return QuantValueError(
        f"{what}: model", "a torch.nn.Module", "an ONNX model",
        "export it first: torch.onnx.export(module, example, 'model.onnx')",
    )  # fmt: skip


def _onnx_model(model: Any) -> Any:
    """Return the graph of a result of `quantize`; anything else as it is."""
    results = ("QuantizedModel", "BlockQuantizedModel")
    return model.model if any(_is_result(model, "intact.ptq", name) for name in results) else model


def _is_result(model: Any, package: str, name: str) -> bool:
    # As below: who never imported the package has no result of it.
    loaded = sys.modules.get(package)
    return loaded is not None and isinstance(model, getattr(loaded, name))


def _is_module(model: Any) -> bool:
    # A module object exists only where torch was imported, so asking sys.modules loads nothing.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
