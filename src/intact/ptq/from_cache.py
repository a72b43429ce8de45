"""Builds a Q/DQ model with the scales of a TensorRT calibration cache, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from warnings import catch_warnings, simplefilter

import numpy as np

from intact import graph
from intact.calib import TrtCache, ZeroRangeWarning
from intact.errors import CalibrationError
from intact.graph import pipelines
from intact.placement import Profile, place, tensor_scales
from intact.ptq.quantize_model import quantize
from intact.ptq.result import QuantizedModel
from intact.ptq.stages.prepare_model import nothing_to_quantize


@dataclass(frozen=True)
class FromCache:
    """Holds the model that a cache gave, and the names that did not match.

    Attributes:
        result: The quantized model.
        pairs: Number of tensors that have the cache's scale.
        strangers: Names in the cache that are no tensor of the model.
        missing: Tensors that would be quantized, and have no scale in the cache.
        zero: Tensors that the cache says were zero throughout; their scale is 1.
    """

    result: QuantizedModel
    pairs: int
    strangers: list[str]
    missing: list[str]
    zero: list[str]


def quantize_from_cache(
    source: graph.Source,
    table: TrtCache,
    *,
    profile: str | Profile = "tensorrt",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    opset: int | None = None,
) -> FromCache:
    """Insert pairs where `profile` wants them, with the scales of the cache; quantize weights per channel.

    What reads a tensor that the cache lacks stays in float, as in TensorRT.

    Args:
        source: The float model.
        table: The cache.
        profile, include, exclude, opset: As for `quantize`.
    Raises:
        CalibrationError: The cache has no scale that the model needs.
        FileFormatError, UnsupportedError: As for `quantize`.
    """
    plan = _Plan(source, profile, include, exclude, table)
    if not plan.used and not plan.missing:
        raise nothing_to_quantize(graph.load(source))
    if not plan.used:
        raise CalibrationError(
            "the cache", "no scale of a tensor that the model would have quantized",
            f"scales of {', '.join(plan.missing[:3]) or 'its tensors'}",
            "check that the cache is of this model: intact cache diff lists the names",
        )  # fmt: skip
    with catch_warnings():
        simplefilter("ignore", ZeroRangeWarning)  # `zero` says it
        result = quantize(
            source, table.to_calibration(), method="max", profile=profile, activations="int8",
            include=include, exclude=plan.exclude, opset=opset, bias_correction=False, equalization=False,
            scale_bits=None, progress=False,
        )  # fmt: skip
    zero = [name for name in plan.used if table.scales[name] == 0]
    return FromCache(result, _pin(result, table.scales), plan.strangers, plan.missing, zero)


class _Plan:
    """Matches the names of a cache with those of a model, and lists what must stay in float."""

    def __init__(
        self, source: graph.Source, profile: str | Profile, include: Sequence[str], exclude: Sequence[str],
        cache: TrtCache,
    ) -> None:  # fmt: skip
        model = graph.load(source)
        graph.run_stages(model, pipelines.CACHE)
        names = tensor_names(model)
        self.strangers = [name for name in cache.scales if name not in names]
        self.exclude = list(exclude)
        pipelines.BATCHNORM(model)
        missing: dict[str, None] = {}
        # Leaving readers in float moves pairs: the placement is asked again until all pairs have scales.
        while True:
            placement = place(model, profile, include=include, exclude=self.exclude)
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
    """Give every pair the scale of the cache, and return the number of pairs.

    Dividing a range by 127 does not reach every float32, so that some scales are one step off. Tensors that
    share a scale get the widest of theirs, and those of scale 0 keep 1.
    """
    sites = [site for site in result.placement.sites if site.role == "activation"]
    widest: dict[int, np.float32] = {}
    for site in sites:
        widest[site.group] = max(widest.get(site.group, np.float32(0)), scales[site.value])
    pair_scales = {site.value: widest[site.group] for site in sites}
    for name, pairs in tensor_scales(result.model).items():
        node = pairs[0].value.producer()
        if pair_scales.get(name) and node is not None and node.inputs[1] is not None:
            graph.set_initializer(result.model, node.inputs[1].name or "", np.asarray(pair_scales[name]))
    return len(pair_scales)


def tensor_names(model: graph.Model) -> dict[str, None]:
    """Return every tensor that TensorRT would ask a scale for, in the graph's order."""
    output_names = [value.name for node in model.graph for value in node.outputs]
    return dict.fromkeys(
        name for name in (*(value.name for value in model.graph.inputs), *output_names) if name
    )
