"""``intact cache`` translates between TensorRT's calibration caches and Q/DQ files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from intact.calib import ALGORITHMS, DEFAULT_VERSION, TrtCache
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import READ, AsJson, Exclude, Include, ModelFile, Opset, Out, ProfileName
from intact.errors import CalibrationError
from intact.reading import reading
from intact.spec import INT8, QuantSpec

if TYPE_CHECKING:
    from intact.graph import Model

DIFFERENT = 1

CacheFile = Annotated[Path, typer.Argument(help="A calibration cache.", **READ)]
Either = Annotated[Path, typer.Argument(help="A calibration cache, or an ONNX file.", **READ)]


def to_onnx(
    cache: CacheFile,
    model: ModelFile,
    out: Out,
    profile: ProfileName = "tensorrt",
    include: Include = None,
    exclude: Exclude = None,
    opset: Opset = None,
    as_json: AsJson = False,
) -> None:
    """Write the Q/DQ file that says explicitly what a calibration cache said to the builder.

    TensorRT 11 takes no calibrator and no cache, only Q/DQ pairs. Pairs are placed by TensorRT's rules; each
    has the cache's scale, bit for bit; weights are quantized per channel. What reads a tensor that the cache
    lacks stays in float, as in TensorRT. Names that match nothing are listed.

    Examples:

    - `intact cache to-onnx calibration.cache model.onnx -o model.qdq.onnx`
    - `intact check model.qdq.onnx --target tensorrt` afterwards
    """
    from intact.graph import save
    from intact.ptq import quantize_from_cache

    table = TrtCache.load(cache)
    try:
        done = quantize_from_cache(
            model, table, profile=profile, include=tuple(include or ()), exclude=tuple(exclude or ()),
            opset=opset,
        )  # fmt: skip
    except CalibrationError as error:
        raise CalibrationError(f"file '{cache}'", error.got, error.want, error.fix) from error
    save(done.result.model, out)
    report: dict[str, Any] = {
        "out": str(out), "pairs": done.pairs, "not_in_model": done.strangers, "not_in_cache": done.missing,
        "zero": done.zero,
    }  # fmt: skip
    if as_json:
        show_json(report)
        return
    _list("in the cache, and no tensor of the model", done.strangers)
    _list("without a scale in the cache: not quantized", done.missing)
    _list("with scale 0 in the cache (zero throughout): their scale is 1", done.zero)
    say(f"wrote {out}: {done.pairs} tensors with their scales from {cache}")


def from_onnx(
    model: ModelFile,
    out: Out,
    algorithm: Annotated[
        str, typer.Option(help=f"For the first line: {', '.join(ALGORITHMS)}.")
    ] = ALGORITHMS[0],
    trt_version: Annotated[
        str, typer.Option(help="For the first line: 8601 is TensorRT 8.6.1.")
    ] = DEFAULT_VERSION,
    as_json: AsJson = False,
) -> None:
    """Write the scales of a Q/DQ file as a calibration cache, for implicit int8 on TensorRT 8 and 10.

    Build the engine from the float file: `intact strip` makes it.

    Examples:

    - `intact cache from-onnx model.qdq.onnx -o calibration.cache`
    - `intact cache from-onnx model.qdq.onnx -o dla.cache --trt-version 100300`
    """
    scales, left_out = scales_of(_graph(model))
    if not scales:
        raise CalibrationError(
            f"file '{model}'", "no activation that a cache can describe",
            "Q/DQ pairs with symmetric int8 and one scale per tensor", "quantize it first: intact quantize",
        )  # fmt: skip
    TrtCache(scales, algorithm, trt_version).save(out)
    if as_json:
        show_json({"out": str(out), "tensors": len(scales), "left_out": left_out})
        return
    _list("left out", [f"{name}: {why}" for name, why in left_out.items()])
    say(f"wrote {out}: {len(scales)} tensors")


def diff(a: Either, b: Either, as_json: AsJson = False) -> None:
    """Compare the scales of two caches, of a cache and a model, or of two models, name by name.

    A float model has names and no scales: then only the names are compared.

    Exit status: 0 where nothing differs, 1 where something does, 2 where a file cannot be read.

    Examples:

    - `intact cache diff old.cache new.cache`
    - `intact cache diff calibration.cache model.onnx` lists the names that the two do not share
    """
    left, right = _entries(a), _entries(b)
    only_a, only_b = ([n for n in x if n not in y] for x, y in ((left, right), (right, left)))
    pairs = {n: (left[n], right[n]) for n in left if n in right}
    differing = {n: (x, y) for n, (x, y) in pairs.items() if x is not None and y is not None and x != y}
    if as_json:
        scales = {n: {"a": float(x), "b": float(y)} for n, (x, y) in differing.items()}
        show_json({"a": str(a), "b": str(b), "only_a": only_a, "only_b": only_b, "differing": scales,
                   "shared": len(pairs)})  # fmt: skip
    else:
        _list(f"only in {a}", only_a)
        _list(f"only in {b}", only_b)
        if differing:
            rows = [
                (n, f"{x:.9g}", f"{y:.9g}", f"{y / x:.4g}" if x else "") for n, (x, y) in differing.items()
            ]
            show_table("other scales", ("tensor", "a", "b", "b / a"), rows, figures=("a", "b", "b / a"))
        say(f"{len(pairs)} tensors in both, {len(differing)} with other scales")
    if only_a or only_b or differing:
        raise typer.Exit(DIFFERENT)


VERBS: dict[str, Callable[..., None]] = {"to-onnx": to_onnx, "from-onnx": from_onnx, "diff": diff}


def scales_of(graph: Model) -> tuple[dict[str, np.float32], dict[str, str]]:
    """Return the scales of a Q/DQ graph that a cache can hold, and reasons for the others, by tensor."""
    from intact.placement import tensor_scales

    scales: dict[str, np.float32] = {}
    left_out: dict[str, str] = {}
    for name, pairs in tensor_scales(graph).items():
        other_specs = [str(pair.spec) for pair in pairs if pair.spec != QuantSpec(INT8)]
        if other_specs:
            left_out[name] = f"{other_specs[0]}; a cache has symmetric int8 with one scale per tensor"
        elif len(pairs) > 1:
            left_out[name] = f"its readers have {len(pairs)} different scales; a cache has one per tensor"
        else:
            scales[name] = np.float32(pairs[0].scale)
    return scales, left_out


def _graph(model: Path) -> Model:
    from intact.graph import load, normalize

    graph = load(model)
    normalize(graph)
    return graph


def _entries(file: Path) -> Mapping[str, np.float32 | None]:
    """Return the scale by tensor name; None for each tensor of a float model."""
    with reading(file), file.open("rb") as content:
        if content.read(4) == b"TRT-":
            return TrtCache.load(file).scales
    from intact.ptq import tensor_names

    graph = _graph(file)
    scales, _ = scales_of(graph)
    return scales or dict.fromkeys(tensor_names(graph))


def _list(heading: str, names: Sequence[str]) -> None:
    if names:
        say(f"{len(names)} {heading}:")
    for name in names:
        say(f"  {name}")
