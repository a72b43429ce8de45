"""The configurations of `modelopt.torch.quantization` by name, and what one says of each quantizer.

Source of names and values: ModelOpt 0.40, torch/quantization/config.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from intact.errors import QuantValueError
from intact.ptq.modelopt.quantizers import OFF, QuantizerChain, read_chain, refuse

_OFF: dict[str, Any] = {"enable": False}
_INT8, _INT4 = {"num_bits": 8, "axis": None}, {"num_bits": 4, "block_sizes": {-1: 128, "type": "static"}}
_INT8_ROWS = {"num_bits": 8, "axis": 0}
_FP8 = {"num_bits": (4, 3), "axis": None}
_TOKENS = {"num_bits": (4, 3), "type": "dynamic", "block_sizes": {-1: None}}
_AFFINE = {"bias": {-2: None, -4: None, "type": "static"}}
_MLP = {"pass_through_bwd": True}


def _microscaling(bits: Any) -> dict[str, Any]:
    """Return blocks of 32 with scales that are powers of two."""
    return {"num_bits": bits, "block_sizes": {-1: 32, "type": "dynamic", "scale_bits": (8, 0)}}


def _nvfp4(block: int = 16) -> dict[str, Any]:
    """Return blocks of fp4 with scales of fp8."""
    return {"num_bits": (2, 1), "block_sizes": {-1: block, "type": "dynamic", "scale_bits": (4, 3)}}


_MXFP8, _MXFP4 = _microscaling((4, 3)), _microscaling((2, 1))
_AWQ_LITE = {"method": "awq_lite", "alpha_step": 0.1}
_LINEAR: dict[str, tuple[Any, Any, Any]] = {
    "INT8_DEFAULT_CFG": (_INT8_ROWS, _INT8, "max"),
    "INT8_SMOOTHQUANT_CFG": (_INT8_ROWS, _INT8, "smoothquant"),
    "INT8_WEIGHT_ONLY_CFG": (_INT8_ROWS, _OFF, "max"),
    "FP8_DEFAULT_CFG": (_FP8, _FP8, "max"),
    "FP8_PER_CHANNEL_PER_TOKEN_CFG": (_FP8 | {"axis": 0}, _TOKENS, "max"),
    "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG": (
        {"num_bits": (4, 3), "block_sizes": {-1: 128, -2: 128}}, _OFF, "max",
    ),
    "INT4_BLOCKWISE_WEIGHT_ONLY_CFG": ({"num_bits": 4, "block_sizes": {-1: 128}}, _OFF, "max"),
    "INT4_AWQ_CFG": (_INT4, _OFF, _AWQ_LITE),
    "W4A8_AWQ_BETA_CFG": ([_INT4, _FP8], _FP8, "awq_lite"),
    "MXFP8_DEFAULT_CFG": (_MXFP8, _MXFP8, None),
    "MXFP6_DEFAULT_CFG": (_microscaling((3, 2)), _microscaling((3, 2)), None),
    "MXFP4_DEFAULT_CFG": (_MXFP4, _MXFP4, None),
    "MXINT8_DEFAULT_CFG": (_microscaling(8), _microscaling(8), None),
    "W4A8_MXFP4_FP8_CFG": (_MXFP4, _FP8, None),
    "W4A8_NVFP4_FP8_CFG": (_nvfp4(32), _FP8, "max"),
    "NVFP4_DEFAULT_CFG": (_nvfp4(), _nvfp4(), "max"),
    "NVFP4_AWQ_LITE_CFG": (_nvfp4(), _nvfp4(), "awq_lite"),
    "NVFP4_AWQ_CLIP_CFG": (_nvfp4(), _nvfp4(), {"method": "awq_clip"}),
    "NVFP4_AWQ_FULL_CFG": (_nvfp4(), _nvfp4(), {"method": "awq_full", "alpha_step": 0.1}),
    "NVFP4_SVDQUANT_DEFAULT_CFG": (_nvfp4(), _nvfp4(), {"method": "svdquant", "lowrank": 32}),
}  # fmt: skip
"""Those of all linear layers: weights, inputs, algorithm."""

_SPECIAL: dict[str, tuple[dict[str, Any], Any]] = {
    "FP8_KV_CFG": ({"*[kv]_bmm_quantizer": _FP8, "default": _OFF}, "max"),
    "FP8_AFFINE_KV_CFG": ({"*[kv]_bmm_quantizer": _FP8 | _AFFINE, "default": _OFF}, "max"),
    "NVFP4_KV_CFG": ({"*[kv]_bmm_quantizer": _nvfp4(), "default": _OFF}, "max"),
    "NVFP4_AFFINE_KV_CFG": ({"*[kv]_bmm_quantizer": _nvfp4() | _AFFINE, "default": _OFF}, "max"),
    "NVFP4_KV_ROTATE_CFG": (
        {
            "*q_bmm_quantizer": _OFF | {"rotate": True},
            "*k_bmm_quantizer": _nvfp4() | {"rotate": True},
            "*v_bmm_quantizer": _nvfp4(),
        },
        "max",
    ),
    "NVFP4_FP8_MHA_CONFIG": (
        {
            "*weight_quantizer": _nvfp4(), "*input_quantizer": _nvfp4(), "*output_quantizer": _OFF,
            "*q_bmm_quantizer": _FP8, "*k_bmm_quantizer": _FP8, "*v_bmm_quantizer": _FP8,
            "*softmax_quantizer": _FP8, "transformer_blocks*bmm2_output_quantizer": _FP8, "default": _OFF,
        },
        "max",
    ),
}  # fmt: skip
"""Those of attention: quantizers, algorithm."""

_MLP_ONLY: dict[str, tuple[dict[str, Any], Any]] = {
    "MXFP4_MLP_WEIGHT_ONLY_CFG": ({"*mlp*weight_quantizer": _MXFP4 | _MLP}, None),
    "NVFP4_MLP_WEIGHT_ONLY_CFG": ({"*mlp*weight_quantizer": _nvfp4(32) | _MLP}, "max"),
    "NVFP4_MLP_ONLY_CFG": (
        {"*mlp*weight_quantizer": _nvfp4() | _MLP, "*mlp*input_quantizer": _nvfp4() | _MLP}, "max",
    ),
}  # fmt: skip

_SWITCHED_OFF = (
    "*lm_head*", "*proj_out.*", "*block_sparse_moe.gate*", "*router*", "*mlp.gate.*",
    "*mlp.shared_expert_gate.*", "*linear_attn.conv1d*", "*mixer.conv1d*", "*output_layer*", "output.*",
    "default",
)  # fmt: skip
"""Patterns that ModelOpt switches off in every configuration of linear layers."""

NAMES = tuple(sorted({*_LINEAR, *_SPECIAL, *_MLP_ONLY}))
"""All names of `modelopt.torch.quantization` that are known."""


def configuration_of(name: str) -> dict[str, Any]:
    """Return the configuration of a name.

    Raises:
        QuantValueError: There is none.
    """
    off = dict.fromkeys(_SWITCHED_OFF, _OFF)
    if name in _LINEAR:
        weights, inputs, algorithm = _LINEAR[name]
        quantizers = {"*weight_quantizer": weights, "*input_quantizer": inputs} | off
    elif name in _SPECIAL:
        quantizers, algorithm = _SPECIAL[name]
    elif name in _MLP_ONLY:
        quantizers, algorithm = _MLP_ONLY[name]
        quantizers = quantizers | off
    else:
        raise QuantValueError("ModelOpt", f"{name!r:.60}", f"one of {', '.join(NAMES)}", "correct the name")
    return {"quant_cfg": quantizers, "algorithm": algorithm}


def require_configuration(config: object) -> dict[str, Any]:
    """Return a configuration, or that of a name.

    Raises:
        QuantValueError: It is none.
        UnsupportedError: It has a field that nobody knows.
    """
    if isinstance(config, str):
        return configuration_of(config)
    if not isinstance(config, Mapping) or not isinstance(config.get("quant_cfg"), Mapping):
        raise QuantValueError("ModelOpt", f"{config!r:.60}", "a dict with quant_cfg", "pass a configuration")
    if extra := sorted(map(str, config.keys() - {"quant_cfg", "algorithm"})):
        raise refuse(extra[0], "a field that is not known")
    return {"algorithm": "max", **config}


ALGORITHM_FIELDS: Mapping[str | None, frozenset[str]] = {
    None: frozenset(),
    "max": frozenset(),
    "smoothquant": frozenset({"alpha"}),
    "awq_lite": frozenset({"alpha_step"}),
    "awq_clip": frozenset({"min_clip_ratio", "shrink_step"}),
    "awq_full": frozenset({"alpha_step", "min_clip_ratio", "shrink_step"}),
    "svdquant": frozenset({"alpha_step", "lowrank"}),
}
"""Algorithms of layers with blocks of floats, and the settings of each."""

_HARMLESS_SETTINGS = {"method", "debug", "distributed_sync", "max_co_batch_size", "max_tokens_per_batch"}
"""They say how much memory a search may take, or what it prints."""


@dataclass(frozen=True)
class Algorithm:
    """Holds how scales of channels, ranges and what is left are found.

    Attributes:
        method: One of `ALGORITHM_FIELDS`.
        alpha: How much of the inputs' ranges goes into weights, of smoothquant.
        alpha_step: Distance of the shares that AWQ tries.
        min_clip_ratio, shrink_step: Of the ranges that AWQ tries.
        lowrank: Columns of the product beside a layer, of svdquant.
    """

    method: str | None = "max"
    alpha: float = 1.0
    alpha_step: float = 0.1
    min_clip_ratio: float = 0.5
    shrink_step: float = 0.05
    lowrank: int = 32


def read_algorithm(algorithm: Any) -> Algorithm:
    """Return the settings of an algorithm.

    Raises:
        UnsupportedError: There is no such algorithm here, or a setting that it has not got.
        QuantValueError: A setting is no number in its range.
    """
    settings = algorithm if isinstance(algorithm, Mapping) else {"method": algorithm}
    method = settings.get("method")
    method = "awq_full" if method == "awq" else method
    if not isinstance(method, str | None) or method not in ALGORITHM_FIELDS:
        raise refuse("algorithm", f"{method!r:.40} with floats in blocks")
    fields = ALGORITHM_FIELDS[method]
    values: dict[str, Any] = {}
    for name in sorted(settings.keys() - _HARMLESS_SETTINGS):
        if name not in fields:
            raise refuse(f"algorithm: {name}", f"{name}={settings[name]!r:.40} with {method}")
        values[name] = _number(name, settings[name])
    return Algorithm(method, **values)


def _number(name: str, value: Any) -> float | int:
    whole = name == "lowrank"
    valid = isinstance(value, int | (int if whole else float)) and not isinstance(value, bool)
    if not valid or not (1 <= value <= 4096 if whole else 0 <= value <= 1):
        want = "a number from 1 to 4096" if whole else "a number from 0 to 1"
        raise QuantValueError(f"algorithm: {name}", f"{value!r:.40}", want, "correct the configuration")
    if name in ("alpha_step", "shrink_step") and value < 0.01:
        raise QuantValueError(f"algorithm: {name}", f"{value!r:.40}", "0.01 or more", "take larger steps")
    return int(value) if whole else float(value)


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "weight_quantizer": _INT8_ROWS, "input_quantizer": _INT8, "output_quantizer": _OFF,
}  # fmt: skip
"""Quantizers of ModelOpt's layers where a configuration says nothing of them and has no "default"."""

_LINEAR_KINDS = ("weight_quantizer", "input_quantizer", "output_quantizer")
ATTENTION_KINDS = (
    "q_bmm_quantizer", "k_bmm_quantizer", "v_bmm_quantizer", "softmax_quantizer", "bmm2_output_quantizer",
)  # fmt: skip
"""Quantizers of attention, by their names in ModelOpt's modules."""

_CLASSES = {"nn.Linear": _LINEAR_KINDS}


@dataclass(frozen=True)
class QuantizerRules:
    """Holds what a configuration says of quantizers, in its order: the last pattern that fits decides.

    Attributes:
        rules: Pattern of quantizers' names, and their settings.
        default: Of quantizers that no pattern fits; None: as ModelOpt's layers have them.
        algorithm: How ranges are found.
    """

    rules: Sequence[tuple[str, QuantizerChain]]
    default: QuantizerChain | None
    algorithm: Algorithm
    _cache: dict[tuple[tuple[str, ...], str], QuantizerChain] = field(default_factory=dict, compare=False)

    def of(self, paths: Sequence[str], kind: str) -> QuantizerChain:
        """Return the quantizer `kind` of the module that has one of the names `paths`."""
        key = (tuple(paths), kind)
        if key not in self._cache:
            chain = self.default if self.default is not None else read_chain(kind, _DEFAULTS.get(kind, _OFF))
            names = [f"{path}.{kind}" for path in paths] or [kind]
            for pattern, settings in self.rules:
                if any(fnmatchcase(name, pattern) for name in names):
                    chain = settings
            self._cache[key] = chain if kind == "weight_quantizer" else self._as_calibrated(kind, chain)
        return self._cache[key]

    def _as_calibrated(self, kind: str, chain: QuantizerChain) -> QuantizerChain:
        """Return the quantizers of an activation: where nothing calibrates them, each run finds its range."""
        if self.algorithm.method is not None or not chain:
            return chain
        if any(quantizer.scale_type == "float8_e4m3fn" for quantizer in chain.quantizers):
            raise refuse(f"algorithm: None with {kind}", "scales of fp8 whose own scale nothing calibrates")
        return replace(chain, quantizers=tuple(replace(q, is_dynamic=True) for q in chain.quantizers))

    @property
    def has_attention(self) -> bool:
        """True where a pattern names quantizers of attention, and switches them on."""
        return any(
            chain is not OFF
            and any(kind in pattern or fnmatchcase(f"x.{kind}", pattern) for kind in ATTENTION_KINDS)
            for pattern, chain in self.rules
        )


def read_rules(config: str | Mapping[str, Any]) -> QuantizerRules:
    """Return what a configuration says of each quantizer.

    Raises:
        UnsupportedError: A field asks for what INTact cannot do; names it.
        QuantValueError: There is no such configuration or field.
    """
    settings = require_configuration(config)
    rules, default = read_quantizer_rules(settings)
    return QuantizerRules(rules, default, read_algorithm(settings["algorithm"]))


def read_quantizer_rules(
    settings: Mapping[str, Any],
) -> tuple[tuple[tuple[str, QuantizerChain], ...], QuantizerChain | None]:
    """Return patterns with their quantizers, and what quantizers are that no pattern fits, if it is said.

    Raises:
        UnsupportedError, QuantValueError: As for `read_rules`.
    """
    rules: list[tuple[str, QuantizerChain]] = []
    default: QuantizerChain | None = None
    for key, value in settings["quant_cfg"].items():
        if not isinstance(key, str):
            raise refuse("quant_cfg", f"a key {key!r:.40}", "name quantizers by patterns")
        try:
            if key == "default":
                default = read_chain(key, value)
            elif key.startswith("nn."):
                rules += _class_rules(key, value)
            else:
                rules.append((key, read_chain(key, value)))
        except QuantValueError as error:
            raise error.at("ModelOpt") from error
    return tuple(rules), default


def _class_rules(key: str, value: Any) -> list[tuple[str, QuantizerChain]]:
    """Return the rules of one class of modules: of layers that have quantizers here, or none."""
    if not isinstance(value, Mapping):
        raise QuantValueError(key, f"{value!r:.60}", "a dict of patterns", "correct the configuration")
    rules = []
    for pattern, fields in value.items():
        chain = read_chain(f"{key}: {pattern}", fields)
        if key in _CLASSES:
            rules += [(f"*{kind}", chain) for kind in _CLASSES[key] if fnmatchcase(kind, str(pattern))]
        elif chain is not OFF:
            raise refuse(key, "quantizers of a class that has none here")
    return rules


def needs_blocks_of_floats(config: str | Mapping[str, Any]) -> bool:
    """Return whether a configuration asks for more than the options of `quantize` say.

    That is: floats in blocks, blocks along two axes, scales that a run finds, several quantizers behind one
    another, or quantizers of attention.

    Raises:
        UnsupportedError, QuantValueError: As for `require_configuration`.
    """
    settings = require_configuration(config)
    enabled = [
        (key, fields)
        for key, value in settings["quant_cfg"].items()
        for fields in (value if isinstance(value, list | tuple) else [value])
        if isinstance(fields, Mapping) and (fields.get("enable", True) is not False or fields.get("rotate"))
        and not str(key).startswith("nn.")
    ]  # fmt: skip
    method = settings["algorithm"]
    method = method.get("method") if isinstance(method, Mapping) else method
    if any(isinstance(value, list | tuple) for value in settings["quant_cfg"].values()):
        return True
    of_weights = [fields for key, fields in enabled if str(key).endswith("weight_quantizer")]
    if any(fields != of_weights[0] for fields in of_weights[1:]):  # layers differ
        return True
    return method in ("awq_clip", "awq_full", "svdquant") or any(
        _is_attention(str(key)) or fields.get("type") == "dynamic" or _is_special(fields)
        for key, fields in enabled
    )


def _is_attention(pattern: str) -> bool:
    return any(name in pattern for name in ("bmm", "softmax_quantizer"))


def _is_special(fields: Mapping[str, Any]) -> bool:
    sizes = fields.get("block_sizes") or {}
    if not isinstance(sizes, Mapping):
        return False
    axes = [key for key in sizes if str(key).lstrip("-").isdigit()]
    return sizes.get("type") == "dynamic" or bool(sizes.get("scale_bits")) or len(axes) > 1
