"""Reads quantization_config of compressed-tensors.

Source: compressed-tensors config/base.py, quantization/quant_config.py and quant_args.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from intact.formats.metadata_fields import MetadataFields
from intact.formats.quantization.integer_codes import check_codes
from intact.formats.quantization.layer_facts import LayerFacts

NAIVE = ("int-quantized", "float-quantized", "naive-quantized", "mxfp8-quantized")
PACKED = ("pack-quantized", "mxfp4-pack-quantized", "nvfp4-pack-quantized")
MIXED = "mixed-precision"
_ACTIVATIONS = "how activations are rounded is chosen where the model is opened"
_HARMLESS = {
    "global_compression_ratio": "it says how small the file is", "version": "it names the tool",
}  # fmt: skip
_WEIGHTS = {
    "observer": "it says how scales were found", "observer_kwargs": "it says how scales were found",
    "scale_dtype": "tensors have their own", "zp_dtype": "tensors have their own",
}  # fmt: skip
_NOTHING: dict[str, tuple[Any, ...]] = {
    "kv_cache_scheme": ({},),
    "transform_config": ({}, {"config_groups": {}}),
}
_OFF = "this says that there is no such variant"
_SAFE = re.compile(r"(?:[\w\-/^$|()?]|\\[.dw]\+?|\.\*?|\[0-9\]\+?)*")
"""Expressions that no name makes slow: without repetitions of groups."""
_MOST_WILD = 4


def packed_codec(fields: MetadataFields) -> str | None:
    """Return the codec whose tensors a model of compressed-tensors has; None for several, or another."""
    form = fields.peek("format")
    forms = {form}
    if form == MIXED:
        groups = fields.peek("config_groups")
        entries = groups.values() if isinstance(groups, dict) else ()
        forms = {entry.get("format") if isinstance(entry, dict) else None for entry in entries}
    if all(name in PACKED or name in (None, "") for name in forms):
        return "compressed-tensors"
    return "naive-quantized" if all(name in NAIVE for name in forms) else None


def check_compressed_tensors(fields: MetadataFields, layers: Sequence[LayerFacts]) -> None:
    """Hold the groups of a configuration to the tensors of their layers.

    Args:
        fields: Of the model's configuration.
        layers: What its tensors show.
    Raises:
        UnsupportedError: A field that is not known, or says what is not computed.
        FileFormatError: A field contradicts the tensors.
    """
    fields.take("format")
    fields.choice("quantization_status", ("compressed", "frozen"), "compressed")
    for key, values in _NOTHING.items():
        fields.require(key, values, _OFF)
    fields.harmless(_HARMLESS)
    _check_sparsity(fields)
    ignored = fields.items("ignore", str) or []
    for layer in layers:
        for pattern in ignored:
            if _matches(fields, "ignore", pattern, layer.name):
                raise fields.contradiction("ignore", f"the layer '{layer.name}' has codes", "floats there")
    groups = fields.inner_fields("config_groups")
    entries = [(name, groups.inner_fields(name)) for name in groups] if groups is not None else []
    checks = [(name, _Group(entry)) for name, entry in entries if entry is not None]
    for layer in layers if checks else ():
        owners = [group for _, group in checks if len(checks) == 1 or group.has(layer.name)]
        if not owners:
            raise fields.contradiction("config_groups", f"no group has '{layer.name}'", "a group for each")
        for group in owners[:1]:
            group.check(layer)


class _Group:
    """Reads one entry of `config_groups`."""

    def __init__(self, fields: MetadataFields) -> None:
        self._fields = fields
        self._targets = fields.items("targets", str) or []
        fields.take("format")
        fields.require("output_activations", (), _OFF)
        self._check_activations()
        self._weights = fields.inner_fields("weights")
        if self._weights is not None:
            self._read_weights(self._weights)

    def has(self, layer: str) -> bool:
        """Return whether a layer belongs to the group: by its name, an expression, or as every Linear."""
        return any(
            target == "Linear" or _matches(self._fields, "targets", target, layer) for target in self._targets
        )

    def check(self, layer: LayerFacts) -> None:
        """Refuse a layer whose tensors are not as the group says."""
        weights = self._weights
        if weights is None:
            return
        check_codes(weights, self._bits, self._size, layer, ("num_bits", "group_size"))
        if (self._type == "float") != layer.is_float:
            kind = "floats" if layer.is_float else "integers"
            raise weights.contradiction("type", f"the codes of '{layer.name}' are {kind}", "one of both")
        is_one = {"tensor": layer.is_whole, "channel": layer.groups == 1}.get(self._strategy, True)
        if not is_one:
            raise weights.contradiction(
                "strategy", f"'{layer.name}' has {layer.groups} groups in a row", "one of both"
            )
        has_points = any(layer.points or ())
        if self._symmetric and has_points:
            raise weights.contradiction("symmetric", f"'{layer.name}' has zero points", "one of both")
        if not self._symmetric and layer.points is None:
            raise weights.contradiction("symmetric", f"'{layer.name}' has no zero points", "one of both")
        is_group = self._order in ("group", "dynamic")
        if is_group != layer.has_order and (is_group or not layer.is_ordered):
            state = "weight_g_idx" if layer.has_order else "no weight_g_idx"
            raise weights.contradiction("actorder", f"'{layer.name}' has {state}", "one of both")

    def _check_activations(self) -> None:
        inputs = self._fields.inner_fields("input_activations")
        if inputs is None:
            return
        if inputs.peek("dynamic") is not True:
            inputs.refuse("dynamic", "true: stored scales of activations are not read")
        inputs.harmless(dict.fromkeys(inputs, _ACTIVATIONS))

    def _read_weights(self, weights: MetadataFields) -> None:
        self._bits = weights.integer("num_bits", 8, least=2, most=8)
        self._type = weights.choice("type", ("int", "float"), "int")
        self._symmetric = weights.flag("symmetric", True)
        size = weights.integer("group_size", least=-1) if "group_size" in weights else None
        named = weights.choice("strategy", ("tensor", "channel", "group", "tensor_group"), self._usual(size))
        if (named in ("group", "tensor_group")) != (size is not None and size > 0):
            raise weights.contradiction("strategy", f"group_size = {size}", "a size for groups alone")
        self._strategy, self._size = named, size if named.endswith("group") else -1
        order = weights.take("actorder")
        self._order = {True: "group", False: None}.get(order, order) if isinstance(order, bool) else order
        if self._order not in (None, "group", "dynamic", "weight", "static"):
            weights.refuse("actorder", "group, dynamic, weight, static")
        weights.require("dynamic", (False,), _OFF)
        weights.require("block_structure", (), _OFF)
        weights.harmless(_WEIGHTS)

    def _usual(self, size: int | None) -> str:
        return "tensor" if size is None else "channel" if size == -1 else "group"


def _check_sparsity(fields: MetadataFields) -> None:
    sparsity = fields.inner_fields("sparsity_config")
    if sparsity is None:
        return
    sparsity.require("format", ("dense",), "tensors have all their weights")
    sparsity.harmless(dict.fromkeys(sparsity, "tensors have all their weights"))


def _matches(fields: MetadataFields, key: str, pattern: str, layer: str) -> bool:
    """Return whether a pattern of compressed-tensors means a layer.

    Raises:
        UnsupportedError: An expression that a name could make slow.
    """
    if not pattern.startswith("re:"):
        return pattern == layer
    expression = pattern.removeprefix("re:")
    is_safe = _SAFE.fullmatch(expression) and expression.count("*") + expression.count("+") <= _MOST_WILD
    try:
        return bool(is_safe) and re.match(expression, layer) is not None
    except re.error:
        is_safe = None
    finally:
        if not is_safe:
            fields.refuse(key, "names, or expressions of letters, dots and stars")
    return False
