"""Each field of quantization_config means what its maker meant, changes nothing, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.formats.model_cases import save

from intact.errors import FileFormatError, IntactError, UnsupportedError
from intact.formats import open_weights
from intact.formats.packed_layers import LAYER_CODECS
from intact.numerics import BlockWeights, dequantize_blocks

NAMES = ("model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj")
GPTQ = {
    "quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True, "lm_head": False,
    "checkpoint_format": "gptq",
}  # fmt: skip
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
ROUND = {
    "quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": True, "data_type": "int",
    "packing_format": "auto_round:auto_gptq",
}  # fmt: skip


def groups(**weights: Any) -> dict[str, Any]:
    own = {
        "num_bits": 4, "type": "int", "symmetric": True, "group_size": 32, "strategy": "group",
        "dynamic": False, "actorder": None,
    } | weights  # fmt: skip
    return {"group_0": {"targets": ["Linear"], "weights": own, "input_activations": None}}


PACKED = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups(),
    "ignore": ["lm_head"],
}  # fmt: skip


def draw(symmetric: bool = True, bits: int = 4, block: int = 32, permuted: bool = False) -> BlockWeights:
    rng = np.random.default_rng(bits + block)
    codes = rng.integers(0, 2**bits, (64, 128)).astype(np.uint8)
    scales = (rng.normal(size=(64, 128 // block)) * 0.01).astype(np.float16)
    points = np.full(scales.shape, 2 ** (bits - 1), np.uint8)
    if not symmetric:
        points = rng.integers(1, 2**bits, scales.shape).astype(np.uint8)
    order = rng.permutation(np.arange(128) // block).astype(np.int32) if permuted else None
    return BlockWeights(codes, f"uint{bits}", scales, block, points, groups=order)


def write(folder: Path, codec: str, config: Any, weights: BlockWeights, **more: Any) -> Path:
    """Write two layers, with other tensors in place of their own by suffix."""
    folder.mkdir(exist_ok=True)
    parts = LAYER_CODECS[codec].write(weights) | more
    arrays = {f"{name}.{suffix}": part for name in NAMES for suffix, part in parts.items()}
    save(folder / "model.safetensors", {"model.norm.weight": np.ones(128, np.float32), **arrays})
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return folder


def floats(folder: Path) -> np.ndarray:
    return dequantize_blocks(open_weights(folder).read(f"{NAMES[0]}.weight"))


def with_field(config: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value; a field of weights of compressed-tensors begins with "weights."."""
    if field.startswith("weights."):
        return config | {"config_groups": groups(**{field.removeprefix("weights."): value})}
    if field.startswith("group."):
        entry = groups()["group_0"] | {field.removeprefix("group."): value}
        return config | {"config_groups": {"group_0": entry}}
    return config | {field: value}


_COMMON = {
    "bits": (2, 3, 8), "group_size": (16, 64, 128, -1), "sym": (False,), "damp_percent": (0.1,),
    "iters": (200,), "dataset": ("text",), "meta": ({"quantizer": ["x"]},), "new_field": (1,),
    "modules_to_not_convert": (["lm_head"], ["down_proj"]), "kv_cache_scheme": ({"num_bits": 8},),
    "true_sequential": (False,), "pack_dtype": ("int32", "int16"),
}  # fmt: skip
FIELDS: dict[str, tuple[str, dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "gptq": ("gptq", GPTQ, _COMMON | {
        "checkpoint_format": ("gptq_v2", "marlin", None), "format": ("gptq", "gptq_v2", "bitblas"),
        "desc_act": (True,), "lm_head": (True,), "dynamic": ({}, {"-:x": {}}), "static_groups": (True,),
        "is_marlin_format": (True,), "adapter": ({"name": "eora"},), "rotation": ("hadamard",),
        "modules_in_block_to_quantize": ([["mlp.up_proj"]], [["mlp.up_proj", "mlp.down_proj"]]),
    }),
    "awq": ("awq", AWQ, _COMMON | {
        "zero_point": (False,), "version": ("GEMM", "gemv", "marlin"), "backend": ("autoawq", "llm-awq"),
        "format": ("gemm", "gemv_fast"), "desc_act": (True, False), "lm_head": (True, False),
    }),
    "auto-round": ("gptq", ROUND, _COMMON | {
        "packing_format": ("auto_round", "auto_round:gptqmodel", "auto_round:exllamav2", None),
        "backend": ("auto", "auto_round:gptq:exllamav2"), "data_type": ("int", "mx_fp", "nv_fp"),
        "act_bits": (16, 8), "act_dynamic": (False,), "super_bits": (4,), "static_kv_dtype": ("fp8",),
        "extra_config": ({"lm_head": {"bits": 16}}, {NAMES[0]: {"bits": 8}}, {NAMES[0]: {"bits": 16}},
                         {NAMES[0]: {"sym": False}}, {"other": {"bits": 4}}),
    }),
    "compressed-tensors": ("compressed-tensors", PACKED, {
        "format": ("int-quantized", "marlin-24", "mixed-precision"), "kv_cache_scheme": ({"num_bits": 8},),
        "sparsity_config": ({"format": "dense"}, {"format": "sparse-24-bitmask"}), "new_field": (1,),
        "transform_config": ({}, {"config_groups": {"R1": {}}}), "quantization_status": ("frozen", "other"),
        "ignore": ([], [NAMES[1]], ["re:.*down_proj"], ["re:.*lm_head"], ["re:(a+)+$"]),
        "global_compression_ratio": (1.5,), "weights.num_bits": (2, 8), "weights.type": ("float",),
        "weights.symmetric": (False,), "weights.group_size": (64, None), "weights.dynamic": (True,),
        "weights.strategy": ("channel", "tensor", "block"), "weights.actorder": ("group", "weight"),
        "weights.observer": ("mse",), "weights.block_structure": ([128, 128],), "weights.new": (1,),
        "group.output_activations": ({"num_bits": 8},),
        "group.input_activations": ({"num_bits": 8, "dynamic": True}, {"num_bits": 8, "dynamic": False}),
        "group.targets": (["Linear"],), "group.format": ("pack-quantized",),
    }),
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, Any]]:
    for name, (_, _, fields) in FIELDS.items():
        for field, values in fields.items():
            yield from ((name, field, value) for value in values)


@pytest.mark.parametrize(("name", "field", "value"), list(cases()))
def test_a_changed_field_changes_nothing_or_is_refused_by_its_name(tmp_path, name, field, value):
    codec, config, _ = FIELDS[name]
    weights = draw()
    folder = write(tmp_path / "m", codec, with_field(config, field, value), weights)
    try:
        got = floats(folder)
    except IntactError as error:
        assert field.rpartition(".")[2] in str(error)
    else:
        np.testing.assert_array_equal(got, dequantize_blocks(weights))


def test_some_fields_are_used_and_some_refused():
    """The generated test is no test if everything is refused."""
    assert len(list(cases())) > 90


@pytest.mark.parametrize("stored", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("form", ["gptq", "gptq_v2", None])
@pytest.mark.parametrize("symmetric", [True, None])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_symmetric_codes_say_themselves_how_zero_points_are_stored(tmp_path, stored, form, symmetric, bits):
    weights = draw(bits=bits)
    config = GPTQ | {"checkpoint_format": form, "sym": symmetric, "bits": bits}
    folder = write(tmp_path / "m", stored, config, weights)
    np.testing.assert_array_equal(floats(folder), dequantize_blocks(weights))
    opened = open_weights(folder)
    assert opened.format == stored
    uses = {use.key.rpartition(".")[2]: use.use for use in opened.field_uses}
    assert form is None or (uses["checkpoint_format"] == "used") == (form == stored)


@pytest.mark.parametrize(
    ("stored", "changes", "message"),
    [
        ("gptq", {"checkpoint_format": "gptq_v2", "sym": False}, "checkpoint_format = 'gptq_v2'.* points 7"),
        ("gptq_v2", {"checkpoint_format": "gptq", "sym": False}, "checkpoint_format = 'gptq'.* points 8"),
        ("gptq_v2", {"checkpoint_format": None, "sym": False}, "checkpoint_format = None.* points 8"),
    ],
)
def test_zero_points_beside_the_middle_of_an_asymmetric_grid_are_refused(tmp_path, stored, changes, message):
    folder = write(tmp_path / "m", stored, GPTQ | changes, draw())
    with pytest.raises(FileFormatError, match=message):
        open_weights(folder)


def test_symmetric_codes_with_several_zero_points_are_refused_with_both_sources(tmp_path):
    folder = write(tmp_path / "m", "gptq", GPTQ, draw(symmetric=False))
    with pytest.raises(FileFormatError, match="sym = True, but the tensors store zero points 0 to 14"):
        open_weights(folder)
    folder = write(tmp_path / "a", "awq", AWQ | {"zero_point": False}, draw(symmetric=False))
    with pytest.raises(FileFormatError, match="zero_point = False, but the tensors store"):
        open_weights(folder)


@pytest.mark.parametrize("stored", ["gptq", "gptq_v2"])
def test_asymmetric_codes_are_read_as_the_format_says(tmp_path, stored):
    weights = draw(symmetric=False)
    packing = {"gptq": "auto_round:auto_gptq", "gptq_v2": "auto_round"}[stored]
    for config in (GPTQ | {"checkpoint_format": stored}, ROUND | {"packing_format": packing}):
        folder = write(tmp_path / "m", stored, config | {"sym": False}, weights)
        np.testing.assert_array_equal(floats(folder), dequantize_blocks(weights))
    for changes, field in (({}, "packing_format"), ({"backend": "auto"}, "backend")):
        unsaid = ROUND | {"sym": False, "packing_format": None} | changes
        with pytest.raises(FileFormatError, match=field):
            open_weights(write(tmp_path / "m", stored, unsaid, weights))


def test_the_order_of_groups_and_its_field_agree(tmp_path):
    weights = draw(permuted=True)
    for config in (GPTQ | {"desc_act": True}, {key: GPTQ[key] for key in GPTQ if key != "desc_act"}):
        np.testing.assert_array_equal(
            floats(write(tmp_path / "m", "gptq", config, weights)), dequantize_blocks(weights)
        )
    with pytest.raises(FileFormatError, match="desc_act = False, but g_idx"):
        open_weights(write(tmp_path / "m", "gptq", GPTQ, weights))
    packed = with_field(PACKED, "weights.actorder", "group")
    np.testing.assert_array_equal(
        floats(write(tmp_path / "c", "compressed-tensors", packed, weights)), dequantize_blocks(weights)
    )
    with pytest.raises(FileFormatError, match=r"actorder = None, but .* has weight_g_idx"):
        open_weights(write(tmp_path / "c", "compressed-tensors", PACKED, weights))


def test_zero_points_of_compressed_tensors_agree_with_symmetric(tmp_path):
    weights = draw(symmetric=False)
    config = with_field(PACKED, "weights.symmetric", False)
    folder = write(tmp_path / "m", "compressed-tensors", config, weights)
    np.testing.assert_array_equal(floats(folder), dequantize_blocks(weights))
    with pytest.raises(FileFormatError, match=r"symmetric = True, but .* has zero points"):
        open_weights(write(tmp_path / "m", "compressed-tensors", PACKED, weights))


@pytest.mark.parametrize("targets", [[NAMES[0]], ["re:.*up_proj"], [r"re:model\.layers\.0\.mlp\.up_proj$"]])
def test_each_layer_is_held_to_the_group_that_targets_it(tmp_path, targets):
    weights = draw()
    other = {"targets": [NAMES[1]], "weights": groups(num_bits=8)["group_0"]["weights"]}
    entries = {"a": groups()["group_0"] | {"targets": targets}, "b": other}
    folder = write(tmp_path / "m", "compressed-tensors", PACKED | {"config_groups": entries}, weights)
    with pytest.raises(FileFormatError, match=r"b\.weights\.num_bits = 8, but the tensors of .*down_proj"):
        open_weights(folder)
    entries["b"] = groups()["group_0"] | {"targets": [NAMES[1]]}
    folder = write(tmp_path / "m", "compressed-tensors", PACKED | {"config_groups": entries}, weights)
    np.testing.assert_array_equal(floats(folder), dequantize_blocks(weights))
    entries["b"]["targets"] = ["lm_head"]
    folder = write(tmp_path / "m", "compressed-tensors", PACKED | {"config_groups": entries}, weights)
    with pytest.raises(FileFormatError, match=r"config_groups .* no group has .*down_proj"):
        open_weights(folder)


def test_an_accepted_field_passes(tmp_path):
    weights = draw()
    folder = write(tmp_path / "m", "gptq", GPTQ | {"dynamic": {"-:x": {}}}, weights)
    with pytest.raises(UnsupportedError, match=r"--accept quantization_config\.dynamic"):
        open_weights(folder)
    opened = open_weights(folder, accepted=["quantization_config.dynamic"])
    uses = {use.key: use.use for use in opened.field_uses}
    assert uses["quantization_config.dynamic"] == "accepted, not used"
    assert uses["quantization_config.bits"] == "used"


def test_two_files_agree_or_are_refused(tmp_path):
    weights = draw()
    folder = write(tmp_path / "m", "gptq", GPTQ, weights)
    old = folder / "quantize_config.json"
    old.write_text(json.dumps({"bits": 4, "group_size": 32, "damp_percent": 0.1}))
    np.testing.assert_array_equal(floats(folder), dequantize_blocks(weights))
    old.write_text(json.dumps({"bits": 8}))
    with pytest.raises(FileFormatError, match=r"bits = 4, but quantize_config\.json has 8"):
        open_weights(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"quantize_config\.json: .*bits = 8, but the tensors"):
        open_weights(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "bitsandbytes"}, "quant_method 'bitsandbytes'"),
        ({"quant_method": 3}, "quant_method 3"),
        ({"bits": 4, "group_size": 64, "mode": "affine"}, "quant_method ''"),
        ([1], "quantization_config"),
        ({"quant_method": "gptq"}, "no layer with '.qweight'"),
    ],
)
def test_methods_that_are_not_read_are_refused(tmp_path, config, message):
    save(tmp_path / "model.safetensors", {"x": np.zeros(3, np.float32)})
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    with pytest.raises(IntactError, match=message):
        open_weights(tmp_path)


def test_codes_without_a_configuration_are_refused(tmp_path):
    folder = write(tmp_path / "m", "gptq", GPTQ, draw())
    (folder / "config.json").write_text("{}")
    with pytest.raises(FileFormatError, match=r"codes .* without a quantization_config"):
        open_weights(folder)


@pytest.mark.parametrize("name", ["mxfp4-pack-quantized", "float-quantized"])
def test_floats_of_few_bits_are_held_to_their_fields(tmp_path, name):
    rng = np.random.default_rng(0)
    if name == "float-quantized":
        codes = rng.normal(size=(64, 128)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        weights = BlockWeights(codes, "fp8e4m3", np.ones((64, 1), np.float32), 128)
        codec, own = "naive-quantized", {"num_bits": 8, "group_size": None, "strategy": "channel"}
    else:
        scales = np.ones((64, 4), ml_dtypes.float8_e8m0fnu)
        weights = BlockWeights(rng.integers(0, 16, (64, 128)).astype(np.uint8), "fp4e2m1", scales, 32)
        codec, own = "compressed-tensors", {}
    good = PACKED | {"format": name, "config_groups": groups(type="float", **own)}
    folder = write(tmp_path / "m", codec, good, weights)
    np.testing.assert_array_equal(floats(folder), dequantize_blocks(weights))
    for wrong in ({"type": "int"}, {"num_bits": 6}, {"group_size": 64, "strategy": "group"}):
        config = good | {"config_groups": groups(**{"type": "float"} | own | wrong)}
        with pytest.raises(FileFormatError, match=next(iter(wrong))):
            open_weights(write(tmp_path / "m", codec, config, weights))
