"""Reads quantization_config of GPTQ, AutoRound and AWQ.

Sources: AutoGPTQ and GPTQModel (`BaseQuantizeConfig`, `QuantizeConfig`), auto-round export_to_autoround,
AutoAWQ (`AwqConfig`), transformers' utils/quantization_config.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intact.errors import UnsupportedError
from intact.formats.metadata_fields import MetadataFields
from intact.formats.quantization.layer_facts import LayerFacts

_CHOICE, _KERNELS = "it says how codes were chosen", "it chooses kernels"
_ACTIVATIONS = "how activations are rounded is chosen where the model is opened"
_HARMLESS = {
    **dict.fromkeys((
        "damp_percent", "damp_auto_increment", "static_groups", "true_sequential", "dataset", "tokenizer",
        "batch_size", "model_seqlen", "cache_block_outputs", "block_name_to_quantize", "mse", "v2", "gptaq",
        "module_name_preceding_first_block", "pad_token_id", "act_group_aware", "iters", "lr", "minmax_lr",
        "nsamples", "seqlen", "enable_minmax_tuning", "enable_quanted_input", "enable_norm_bias_tuning",
        "gradient_accumulate_steps", "low_gpu_mem_usage", "low_cpu_mem_usage", "scale_dtype", "amp",
        "enable_full_range", "quant_block_list", "to_quant_block_names", "enable_alg_ext", "enable_adam",
        "enable_torch_compile", "momentum", "optimizer", "duo_scaling", "n_parallel_calib_samples",
        "max_calib_samples", "max_calib_seq_len", "apply_clip", "calib_data", "mock_quantization",
        "vram_strategy", "offload_to_disk", "gc_mode", "fallback", "failsafe",
    ), _CHOICE),
    **dict.fromkeys((
        "use_exllama", "use_cuda_fp16", "exllama_config", "disable_exllama", "max_input_length", "do_fuse",
        "fuse_max_seq_len", "modules_to_fuse",
    ), _KERNELS),
    **dict.fromkeys((
        "model_name_or_path", "model_file_base_name", "meta", "autoround_version", "quantizer",
        "_commit_hash", "name_or_path",
    ), "it names where the file comes from"),
}  # fmt: skip
_NOTHING: dict[str, tuple[Any, ...]] = {
    "dynamic": ({},), "adapter": ({},), "rotation": (), "is_marlin_format": (False,), "hyb_act": (False,),
    "static_kv_dtype": (), "static_attention_dtype": (), "super_bits": (), "super_group_size": (),
    "pack_dtype": ("int32",), "rotation_config": ({},), "hadamard_config": ({},), "regex_config": ({},),
    "transform_config": ({},), "kv_cache_scheme": (),
}  # fmt: skip
"""Fields with the values under which nothing is computed otherwise."""
_OFF = "this says that there is no such variant"
_Exception = tuple[MetadataFields, int, int | None]
"""Fields, bits and size of groups of one layer that has others than the rest."""


def gptq_codec(fields: MetadataFields, layers: Sequence[LayerFacts]) -> str:
    """Return "gptq" or "gptq_v2" for the layers of a GPTQ model: what its zero points are stored less.

    Args:
        fields: Of the model's configuration.
        layers: What its tensors show.
    Raises:
        UnsupportedError: A field that is not known, or says what is not computed.
        FileFormatError: A field contradicts another one, or the tensors.
    """
    declared = [key for key in ("checkpoint_format", "format") if key in fields]
    names = {key: str(fields.peek(key)).lower() for key in declared}
    for key, name in names.items():
        if name not in ("gptq", "gptq_v2"):
            fields.refuse(key, "gptq or gptq_v2")
    if len(set(names.values())) > 1:
        raise fields.contradiction("format", f"checkpoint_format = {names['checkpoint_format']!r}", "one")
    source = declared[0] if declared else "checkpoint_format"
    offset = 0 if next(iter(names.values()), "gptq") == "gptq_v2" else 1
    fields.harmless({"backend": _KERNELS})
    symmetric = fields.flag("sym") if "sym" in fields else None
    _check_layers(fields, layers, {})
    _check_head(fields, layers)
    _check_order(fields, layers)
    _check_blocks(fields, layers)
    codec = _codec_of(_offset(fields, layers, offset, symmetric, source, "sym"))
    for key in declared:
        if names[key] == codec:
            fields.take(key)
        fields.harmless({key: f"sym and {_point_range(layers)}: this is {codec}"})
    return codec


def auto_round_codec(fields: MetadataFields, layers: Sequence[LayerFacts], codec: str) -> str:
    """Return the codec of the layers of an AutoRound model.

    Args:
        fields: Of its quantization_config.
        layers: All that have codes.
        codec: As `auto_round_packing` says.
    """
    key = "packing_format" if "packing_format" in fields or "backend" not in fields else "backend"
    fields.take(key)
    fields.harmless({"backend": _KERNELS})
    symmetric = fields.flag("sym") if "sym" in fields else None
    kinds = {"mx_fp", "nv_fp", "mx_fp_rceil", "fp", "fp8"} if codec == "compressed-tensors" else set()
    fields.choice("data_type", {"int", "int_sym", "int_asym"} | kinds, "int")
    _check_activations(fields)
    _check_layers(fields, layers, _extra_config(fields, layers))
    if codec == "awq":
        _check_middle(fields, "sym", symmetric is True, layers)
        return codec
    if codec == "compressed-tensors":
        return codec
    packing = str(fields.peek(key) or "").lower().replace("-", "_")
    offset = 1 if "gptq" in packing else 0 if "auto_round" in packing else None
    return _codec_of(_offset(fields, layers, offset, symmetric, key, "sym"))


def auto_round_packing(fields: MetadataFields) -> str:
    """Return the codec whose tensors an AutoRound model has, "gptq" for both of GPTQ's."""
    key = "packing_format" if "packing_format" in fields else "backend"
    packing = str(fields.peek(key) or "").lower()
    if "awq" in packing:
        return "awq"
    return "compressed-tensors" if "llm_compressor" in packing else "gptq"


def awq_codec(fields: MetadataFields, layers: Sequence[LayerFacts]) -> str:
    """Return "awq" where the fields of an AWQ model are those of its tensors.

    Args:
        fields: Of the model's configuration.
        layers: What its tensors show.
    Raises:
        FileFormatError: The two contradict each other; names the field.
    """
    fields.take("version")
    if str(fields.take("backend", "autoawq")).lower() not in ("autoawq", "auto"):
        fields.refuse("backend", "autoawq")
    _check_layers(fields, layers, {})
    for key in ("format", "checkpoint_format"):
        fields.require(key, ("gemm",), "it repeats the version")
    fields.require("desc_act", (False,), _OFF)
    _check_head(fields, layers)
    symmetric = fields.flag("sym", False)
    has_points = fields.flag("zero_point", not symmetric)
    if symmetric and has_points:
        raise fields.contradiction("sym", f"zero_point = {has_points}", "one of them")
    _check_middle(fields, "zero_point", not has_points, layers)
    return "awq"


def _codec_of(offset: int) -> str:
    return "gptq" if offset else "gptq_v2"


def _offset(
    fields: MetadataFields, layers: Sequence[LayerFacts], declared: int | None, symmetric: bool | None,
    source: str, key: str,
) -> int:  # fmt: skip
    """Return what has to be added to stored zero points, 0 or 1.

    A symmetric grid has its zero point in the middle, so that the stored ones tell the convention. Files are
    known whose `checkpoint_format` contradicts that.

    Args:
        fields, layers: As for `gptq_codec`.
        declared: What the format says; None: nothing.
        symmetric: What `key` says; None: nothing.
        source: The field that declares.
        key: The field that says whether the grid is symmetric.
    """
    offsets = {layer.middle - point for layer in layers for point in layer.points or ()}
    is_certain = offsets in ({0}, {1})
    if is_certain and symmetric is not False:
        return offsets.pop()
    shown = _point_range(layers)
    if symmetric:
        raise fields.contradiction(key, f"{shown}, which are not all the middle", "one of both")
    if declared is None:
        raise fields.contradiction(source, f"{shown}, and it depends on it what they mean", "a packing")
    if is_certain and declared not in offsets:
        raise fields.contradiction(
            source, f"{shown} and {key} = {symmetric}: every zero point lies beside the middle",
            "zero points of an asymmetric grid, or another format",
        )  # fmt: skip
    return declared


def _point_range(layers: Sequence[LayerFacts]) -> str:
    points = sorted({point for layer in layers for point in layer.points or ()})
    spread = f"{points[0]}" if len(points) == 1 else f"{points[0]} to {points[-1]}" if points else "none"
    return f"the tensors store zero points {spread}"


def _check_middle(fields: MetadataFields, key: str, is_symmetric: bool, layers: Sequence[LayerFacts]) -> None:
    if is_symmetric and any(set(layer.points or ()) - {layer.middle} for layer in layers):
        raise fields.contradiction(key, _point_range(layers), "the middle everywhere")


def _check_layers(
    fields: MetadataFields, layers: Sequence[LayerFacts], exceptions: dict[str, _Exception]
) -> None:
    """Hold bits and groups to the tensors, and list what changes nothing."""
    if "bits" not in fields:
        raise fields.error("bits", "an integer from 2 to 8")
    bits = fields.integer("bits", least=2, most=8)
    size = fields.integer("group_size", least=-1) if "group_size" in fields else None
    for layer in layers:
        check_codes(*exceptions.get(layer.name, (fields, bits, size)), layer)
    check_left_out(fields, "modules_to_not_convert", layers)
    fields.harmless(_HARMLESS)
    for key, values in _NOTHING.items():
        fields.require(key, values, _OFF)


def check_codes(
    fields: MetadataFields, bits: int, size: int | None, layer: LayerFacts,
    keys: tuple[str, str] = ("bits", "group_size"),
) -> None:  # fmt: skip
    """Refuse bits or a size of groups that a layer does not have.

    Args:
        fields: With the fields called `keys`.
        bits: What the fields say.
        size: Likewise; None: nothing; -1 or 0: a row is one group.
        layer: What its tensors show.
        keys: Names of the fields.
    Raises:
        FileFormatError: A layer has others; names the field and the layer.
    """
    if layer.bits != bits:
        raise fields.contradiction(
            keys[0], f"the tensors of '{layer.name}' have {layer.bits} bits", "one number of bits"
        )
    groups = 1 if size is not None and (size <= 0 or size >= layer.inputs) else None
    wanted = groups if groups is not None or size is None else -(-layer.inputs // size)
    if wanted is not None and layer.groups != wanted:
        raise fields.contradiction(
            keys[1], f"the tensors of '{layer.name}' have {layer.groups} groups of {layer.inputs} inputs",
            f"{wanted} groups, or another size",
        )  # fmt: skip


def check_left_out(fields: MetadataFields, key: str, layers: Sequence[LayerFacts]) -> None:
    """Refuse codes in a layer that a list of parts of names leaves in floats.

    Args:
        fields: Of the model's configuration.
        key: The field that holds the list.
        layers: What the tensors show.
    Raises:
        FileFormatError: A layer of the list has codes.
    """
    for name in fields.items(key, str) or []:
        coded = next((layer.name for layer in layers if name and name in layer.name), None)
        if coded is not None:
            raise fields.contradiction(key, f"the layer '{coded}' has codes", "floats there")


def _check_head(fields: MetadataFields, layers: Sequence[LayerFacts]) -> None:
    if "lm_head" not in fields:
        return
    has_codes = any(layer.name.rpartition(".")[2] == "lm_head" for layer in layers)
    if fields.flag("lm_head") != has_codes:
        state = "has codes" if has_codes else "has no codes"
        raise fields.contradiction("lm_head", f"the layer lm_head {state}", "one of both")


def _check_order(fields: MetadataFields, layers: Sequence[LayerFacts]) -> None:
    if "desc_act" not in fields:
        return
    permuted = next((layer.name for layer in layers if not layer.is_ordered), None)
    if not fields.flag("desc_act") and permuted is not None:
        raise fields.contradiction("desc_act", f"g_idx of '{permuted}' is in another order", "one of both")


def _check_blocks(fields: MetadataFields, layers: Sequence[LayerFacts]) -> None:
    """Refuse codes in a layer of a block that is not among those that were quantized."""
    key = "modules_in_block_to_quantize"
    names = [name for group in fields.items(key, list) or [] for name in group if isinstance(name, str)]
    for layer in layers:
        is_in_block = any(part.isdecimal() for part in layer.name.split("."))
        if names and is_in_block and not any(layer.name.endswith(f".{name}") for name in names):
            raise fields.contradiction(key, f"the layer '{layer.name}' has codes", "all layers with codes")


def _check_activations(fields: MetadataFields) -> None:
    bits = fields.take("act_bits")
    has_codes = bits is not None and not (isinstance(bits, int) and bits >= 16)
    if has_codes and fields.take("act_dynamic", True) is not True:
        fields.refuse("act_dynamic", "true: scales of activations are not read")
    reasons = ("act_bits", "act_group_size", "act_sym", "act_data_type", "act_dynamic")
    fields.harmless(dict.fromkeys(reasons, _ACTIVATIONS))


def _extra_config(fields: MetadataFields, layers: Sequence[LayerFacts]) -> dict[str, _Exception]:
    """Return bits and sizes of groups of the layers that have others than the rest."""
    extra = fields.inner_fields("extra_config")
    if extra is None:
        return {}
    names, result = {layer.name for layer in layers}, dict[str, _Exception]()
    for name in extra:
        own = extra.inner_fields(name)
        if own is None:
            continue
        bits = own.integer("bits", fields.integer("bits"), least=2, most=32)
        size = own.integer("group_size", fields.integer("group_size", -1, least=-1), least=-1)
        own.require("sym", (fields.peek("sym"),), "as in other layers")
        own.require("data_type", (fields.peek("data_type"), "float", "fp"), "as in other layers")
        own.harmless(dict.fromkeys(
            ("act_bits", "act_group_size", "act_sym", "act_data_type", "act_dynamic", "scale_dtype"),
            _ACTIVATIONS,
        ))  # fmt: skip
        if bits < 16 and name not in names:
            raise extra.contradiction(name, "no layer of this name has codes", "names of layers")
        if bits >= 16 and name in names:
            raise extra.contradiction(name, "the layer has codes", "16 bits")
        result[name] = own, bits, size
    return result


def unknown_method(fields: MetadataFields, method: str) -> UnsupportedError:
    """Return the error for a method that is not read."""
    return UnsupportedError(
        fields.file, f"quant_method '{method:.60}'",
        "gptq, awq (version gemm), auto-round, compressed-tensors or mxfp4",
        "export the model in one of these",
    )  # fmt: skip
