"""``intact cache``: TensorRT's calibration caches and explicit Q/DQ files, one from the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import typer

from intact.calib import TrtCache, ZeroRangeWarning
from intact.calib.trt_cache import ALGORITHMS, DEFAULT_VERSION
from intact.cli.options import AsJson, Exclude, Include, ModelFile, Opset, Out, ProfileName
from intact.cli.output import say, show_json, show_table
from intact.errors import CalibrationError
from intact.spec import INT8, QuantSpec

if TYPE_CHECKING:
    from intact.graph import Model
    from intact.ptq import QuantizedModel

DIFFERENT = 1

CacheFile = Annotated[Path, typer.Argument(help="A calibration cache.", exists=True, dir_okay=False)]
Either = Annotated[
    Path, typer.Argument(help="A calibration cache, or an ONNX file.", exists=True, dir_okay=False)
]


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
    from intact.ptq import quantize

    table = TrtCache.load(cache)
    plan = _Plan(model, profile, include or (), exclude or (), table)
    if not plan.used:
        raise CalibrationError(
            f"file '{cache}'", f"no scale of a tensor that '{model}' would have quantized",
            f"scales of {', '.join(plan.missing[:3]) or 'its tensors'}",
            "check that the cache is of this model: intact cache diff lists the names",
        )  # fmt: skip
    with catch_warnings():
        simplefilter("ignore", ZeroRangeWarning)  # listed below
        result = quantize(
            model, table.to_calibration(), method="max", profile=profile, include=tuple(include or ()),
            exclude=plan.exclude, opset=opset, bias_correction=False, equalization=False, progress=False,
        )  # fmt: skip
    pinned = _pin(result, table.scales)
    save(result.model, out)
    report: dict[str, Any] = {
        "out": str(out), "pairs": pinned, "not_in_model": plan.strangers, "not_in_cache": plan.missing,
        "zero": [name for name in plan.used if table.scales[name] == 0],
    }  # fmt: skip
    if as_json:
        show_json(report)
        return
    _list("in the cache, and no tensor of the model", plan.strangers)
    _list("without a scale in the cache: not quantized", plan.missing)
    _list("with scale 0 in the cache (zero throughout): their scale is 1", report["zero"])
    say(f"wrote {out}: {pinned} tensors with their scales from {cache}")


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
    """The scales of a Q/DQ graph that a cache can hold, and why it cannot hold the others, by tensor."""
    from intact.placement.scales import tensor_scales

    scales: dict[str, np.float32] = {}
    left_out: dict[str, str] = {}
    for name, found in tensor_scales(graph).items():
        other = [str(one.spec) for one in found if one.spec != QuantSpec(INT8)]
        if other:
            left_out[name] = f"{other[0]}; a cache has symmetric int8 with one scale per tensor"
        elif len(found) > 1:
            left_out[name] = f"its readers have {len(found)} different scales; a cache has one per tensor"
        else:
            scales[name] = np.float32(found[0].scale)
    return scales, left_out


class _Plan:
    """Which names of a cache and of a model find each other, and what stays in float for lack of a scale."""

    def __init__(
        self, model: Path, profile: str, include: Sequence[str], exclude: Sequence[str], cache: TrtCache
    ) -> None:
        from intact.graph import fold_batchnorm
        from intact.placement import place

        graph = _graph(model)
        names = _tensor_names(graph)
        self.strangers = [name for name in cache.scales if name not in names]
        self.exclude = list(exclude)
        fold_batchnorm(graph)
        missing: dict[str, None] = {}
        # Leaving readers in float moves pairs: the placement is asked again until all pairs have scales.
        while True:
            placement = place(graph, profile, include=include, exclude=self.exclude)
            sites = [site for site in placement.sites if site.role == "activation"]
            lacking = [site for site in sites if site.value not in cache.scales]
            readers = {escape(name) for site in lacking for name, _ in site.readers}
            missing |= dict.fromkeys(site.value for site in lacking)
            if readers <= set(self.exclude):
                break
            self.exclude += sorted(readers.difference(self.exclude))
        self.missing = list(missing)
        self.used = [site.value for site in sites]


def _pin(result: QuantizedModel, scales: Mapping[str, np.float32]) -> int:
    """Give every pair the cache's own scale; how many there are.

    Dividing a range by 127 does not reach every float32, so that some scales are one step off. Tensors that
    share a scale get the widest of theirs, and those of scale 0 keep 1.
    """
    from intact.graph import set_initializer
    from intact.placement.scales import tensor_scales

    sites = [site for site in result.placement.sites if site.role == "activation"]
    widest: dict[int, np.float32] = {}
    for site in sites:
        widest[site.group] = max(widest.get(site.group, np.float32(0)), scales[site.value])
    wanted = {site.value: widest[site.group] for site in sites}
    for name, found in tensor_scales(result.model).items():
        node = found[0].value.producer()
        if wanted.get(name) and node is not None and node.inputs[1] is not None:
            set_initializer(result.model, node.inputs[1].name or "", np.asarray(wanted[name]))
    return len(wanted)


def _graph(model: Path) -> Model:
    from intact.graph import load, normalize

    graph = load(model)
    normalize(graph)
    return graph


def _tensor_names(graph: Model) -> dict[str, None]:
    """Every tensor that TensorRT would ask a scale for, in the graph's order."""
    made = [value.name for node in graph.graph for value in node.outputs]
    return dict.fromkeys(name for name in (*(value.name for value in graph.graph.inputs), *made) if name)


def _entries(file: Path) -> Mapping[str, np.float32 | None]:
    """Scale by tensor name; None for each tensor of a float model."""
    with file.open("rb") as content:
        if content.read(4) == b"TRT-":
            return TrtCache.load(file).scales
    graph = _graph(file)
    scales, _ = scales_of(graph)
    return scales or dict.fromkeys(_tensor_names(graph))


def _list(heading: str, names: Sequence[str]) -> None:
    if names:
        say(f"{len(names)} {heading}:")
    for name in names:
        say(f"  {name}")
