"""Hugging Face folders of GPTQ, AWQ and compressed-tensors run with the codes of their files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.formats.model_cases import CONFIGS, save
from tests.lm.small_decoders import TOKENS, draw_weights, families

from intact import lm
from intact.errors import IntactError
from intact.formats.packed_layers import LAYER_CODECS
from intact.numerics import BlockWeights

SIZE, BLOCK = 128, 32


def layer_weights(rng: np.random.Generator, shape: list[int], block: int, in_order: bool) -> BlockWeights:
    groups = np.arange(shape[1]) // block
    scales = (rng.normal(size=(shape[0], shape[1] // block)) * 0.03).astype(np.float16)
    order = None if in_order else rng.permutation(groups).astype(np.int32)
    return BlockWeights(rng.integers(-8, 8, shape).astype(np.int8), "int4", scales, block, groups=order)


def write_packed(
    folder: Path, form: str, *, size: int = SIZE, block: int = BLOCK, in_order: bool = True
) -> dict[str, BlockWeights]:
    """Write a small llama whose projections are packed; returns these by name."""
    rng, record = np.random.default_rng(0), families()["llama"]
    config = record["config"] | {
        "hidden_size": size, "intermediate_size": size, "num_key_value_heads": 4, "head_dim": size // 4,
        "quantization_config": CONFIGS[form]
        | ({"desc_act": True} if form.startswith("gptq") and not in_order else {}),
    }  # fmt: skip
    arrays, layers = dict[str, np.ndarray](), {}
    for name, shape in record["tensors"].items():
        shape = [64 if sized == 64 else size for sized in shape]
        if not name.endswith("_proj.weight"):
            arrays |= draw_weights({name: shape})
            continue
        layers[name] = layer_weights(rng, shape, block, in_order)
        parts = LAYER_CODECS[form].write(layers[name])
        arrays |= {f"{name.removesuffix('.weight')}.{suffix}": part for suffix, part in parts.items()}
    folder.mkdir(exist_ok=True)
    save(folder / "model.safetensors", arrays)
    (folder / "config.json").write_text(json.dumps(config))
    return layers


def kinds_of(model: lm.LanguageModel) -> list[str]:
    return [step.kind for step in model.engine.plan.steps]


@pytest.mark.parametrize("form", CONFIGS)
def test_codes_of_a_folder_are_multiplied(form, tmp_path):
    write_packed(tmp_path, form)
    loaded = lm.load(tmp_path, threads=1)
    assert kinds_of(loaded).count("block_linear") == 21
    reference = lm.load(tmp_path, backend="reference", threads=1)
    assert loaded.logits(TOKENS).tobytes() == reference.logits(TOKENS).tobytes()
    in_floats = lm.load(tmp_path, activations="float", threads=1)
    floats = lm.load(tmp_path, weights="float32", threads=1).logits(TOKENS)
    assert in_floats.logits(TOKENS).tobytes() == floats.tobytes()
    assert 0 < np.linalg.norm(loaded.logits(TOKENS) - floats) < 0.1 * np.linalg.norm(floats)


@pytest.mark.parametrize("form", ["gptq", "gptq_v2", "compressed-tensors"])
def test_groups_in_another_order_are_blocks_of_reordered_inputs(form, tmp_path):
    layers = write_packed(tmp_path, form, in_order=False)
    loaded = lm.load(tmp_path, threads=1)
    assert kinds_of(loaded).count("block_linear") == 21
    products = (step for step in loaded.engine.plan.steps if step.kind == "block_linear")
    step = next(step for step in products if step.name == "0.down")
    assert (step.bits, step.block, step.x_block) == (4, BLOCK, BLOCK)
    weights = layers["model.layers.0.mlp.down_proj.weight"]
    stored = loaded.engine.plan.constants[step.scales]
    assert np.array_equal(stored, weights.scales.astype(np.float32))
    in_floats = lm.load(tmp_path, activations="float", threads=1).logits(TOKENS)
    floats = lm.load(tmp_path, weights="float32", threads=1).logits(TOKENS)
    np.testing.assert_allclose(in_floats, floats, atol=1e-4)  # sums in another order
    assert 0 < np.linalg.norm(loaded.logits(TOKENS) - floats) < 0.1 * np.linalg.norm(floats)


def test_layers_that_share_an_order_share_the_reordered_input(tmp_path):
    write_packed(tmp_path, "gptq", in_order=False)
    apart = kinds_of(lm.load(tmp_path, threads=1)).count("gather")
    tensors = load_file(tmp_path / "model.safetensors")
    same = tensors["model.layers.0.self_attn.q_proj.g_idx"]
    tensors |= {name: same for name in tensors if name.endswith("g_idx")}
    save_file(tensors, tmp_path / "model.safetensors")
    # Three layers, in each of which three projections read one input, and two another.
    assert kinds_of(lm.load(tmp_path, threads=1)).count("gather") == apart - 3 * 3


def test_one_scale_for_a_channel_leaves_activations_their_blocks(tmp_path):
    write_packed(tmp_path, "naive-quantized", size=320, block=320)
    loaded = lm.load(tmp_path, threads=1)
    steps = [step for step in loaded.engine.plan.steps if step.kind == "block_linear"]
    assert {(step.block, step.x_block) for step in steps} == {(320, 128)}
    reference = lm.load(tmp_path, backend="reference", threads=1)
    assert loaded.logits(TOKENS).tobytes() == reference.logits(TOKENS).tobytes()


def write_expert_codes(folder: Path) -> dict[str, np.ndarray]:
    """Write a small gpt-oss with experts in MXFP4; return its tensors with the floats that they mean."""
    record, rng = families()["gpt_oss"], np.random.default_rng(3)
    codes = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    config = record["config"] | {"quantization_config": codes}
    arrays, floats = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name, shape in record["tensors"].items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            arrays |= draw_weights({name: shape})
            continue
        experts, inputs, outputs = shape
        blocks = rng.integers(0, 256, (experts, outputs, inputs // 32, 16)).astype(np.uint8)
        scales = rng.integers(121, 124, (experts, outputs, inputs // 32)).astype(np.uint8)
        arrays |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        floats[name] = expert_floats(blocks, scales)
    folder.mkdir()
    save_file(arrays, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    plain = {name: array for name, array in arrays.items() if not name.endswith(("_blocks", "_scales"))}
    return plain | floats


def expert_floats(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the floats [experts, inputs, outputs] of MXFP4, by the table of its 16 codes."""
    half = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:3], 32)
    values = np.concatenate([half, -half])[codes] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return np.ascontiguousarray(values.reshape(*blocks.shape[:2], -1).swapaxes(1, 2), np.float32)


def test_experts_in_mxfp4_keep_their_codes(tmp_path):
    floats = write_expert_codes(tmp_path / "codes")
    (tmp_path / "floats").mkdir()
    save_file(floats, tmp_path / "floats/model.safetensors")
    config = json.loads((tmp_path / "codes/config.json").read_text())
    del config["quantization_config"]
    (tmp_path / "floats/config.json").write_text(json.dumps(config))
    want = lm.load(tmp_path / "floats", weights="float32", threads=1).logits(TOKENS)
    unpacked = lm.load(tmp_path / "codes", weights="float32", threads=1).logits(TOKENS)
    assert unpacked.tobytes() == want.tobytes()
    loaded = lm.load(tmp_path / "codes", threads=1)
    assert kinds_of(loaded).count("chosen_block_linear") == 9
    reference = lm.load(tmp_path / "codes", backend="reference", threads=1)
    assert loaded.logits(TOKENS).tobytes() == reference.logits(TOKENS).tobytes()
    in_floats = lm.load(tmp_path / "codes", activations="float", threads=1)
    np.testing.assert_allclose(in_floats.logits(TOKENS), want, atol=1e-4)  # sums in another order


@pytest.mark.parametrize(("name", "change", "says"), [
    ("gate_up_proj_blocks", lambda array: array[..., :8], "16 bytes"),
    ("gate_up_proj_blocks", lambda array: array.astype(np.int8), "uint8"),
    ("down_proj_scales", lambda array: array[:, 1:], "scales"),
    ("down_proj_scales", lambda array: np.full_like(array, 255), "NaN"),
    ("down_proj_scales", None, "scales"),
])  # fmt: skip
def test_damaged_mxfp4_names_what_is_wrong(name, change, says, tmp_path):
    write_expert_codes(tmp_path / "codes")
    tensors = load_file(tmp_path / "codes/model.safetensors")
    full = f"model.layers.1.mlp.experts.{name}"
    array = tensors.pop(full)
    if change is not None:
        tensors[full] = np.ascontiguousarray(change(array))
    save_file(tensors, tmp_path / "codes/model.safetensors")
    with pytest.raises(IntactError, match=says):
        lm.load(tmp_path / "codes", weights="float32", threads=1)
