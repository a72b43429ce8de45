"""The language models of folders whose models read images, too, against the logits of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.lm.small_decoders import TOKENS, draw_weights, families, reference_logits

from intact import lm
from intact.errors import UnsupportedError

CASES = [
    ("gemma3", "gemma3", "Gemma3", "language_model.model."),
    ("gemma3", "gemma3", "Gemma3", "model.language_model."),
    ("qwen3_5", "qwen3_5", "Qwen3_5", "model.language_model."),
    ("mistral3", "mistral", "Mistral3", "language_model.model."),
    ("llava", "llama", "Llava", "language_model.model."),
    ("llava", "qwen2", "Llava", "model.language_model."),
    ("internvl", "qwen3", "InternVL", "model.language_model."),
    ("lfm2_vl", "lfm2", "Lfm2Vl", "model.language_model."),
    ("smolvlm", "llama", "SmolVLM", "model.text_model."),
]
"""Type of the whole model, family of its language model, class, and the beginning of the names of tensors."""


def write_whole(folder: Path, kind: str, family: str, architecture: str, prefix: str, **changed: Any) -> Path:
    """Write a folder of a whole model around a small decoder."""
    record = families()[family]
    inner = {name: value for name, value in record["config"].items() if name != "architectures"}
    tied = "lm_head.weight" not in record["tensors"]
    config = {
        "model_type": kind, "architectures": [f"{architecture}ForConditionalGeneration"],
        "text_config": inner, "vision_config": {"hidden_size": 16}, "image_token_id": 5,
        "tie_word_embeddings": tied, "eos_token_id": 1,
    } | changed  # fmt: skip
    head = "language_model.lm_head." if prefix.startswith("language") else "lm_head."
    tensors = {
        name.replace("model.", prefix, 1)
        if name.startswith("model.")
        else name.replace("lm_head.", head): value
        for name, value in draw_weights(record["tensors"]).items()
    }
    tower = "vision_tower" if prefix.startswith("language") else "model.vision_tower"
    tensors[f"{tower}.layer.weight"] = np.zeros((4, 4), np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def load_floats(folder: Path) -> lm.LanguageModel:
    return lm.load(folder, weights="float32", activations="float", threads=1)


@pytest.mark.parametrize("kind, family, architecture, prefix", CASES)
def test_the_language_model_of_a_whole_one_is_opened(tmp_path, kind, family, architecture, prefix):
    model = load_floats(write_whole(tmp_path / "m", kind, family, architecture, prefix))
    np.testing.assert_allclose(model.logits(TOKENS.tolist()), reference_logits(family), atol=1e-3)
    assert lm.load(tmp_path / "m", weights="int4", block=16, threads=1).logits([1, 2]).shape == (2, 64)


def test_what_is_left_out_is_listed(tmp_path):
    folder = write_whole(tmp_path / "m", "gemma3", "gemma3", "Gemma3", "language_model.model.")
    uses = {use.key: use for use in lm.describe(folder).fields}
    assert "images" in str(uses["vision_config"].use) and "text_config.hidden_size" in uses


def test_the_outer_field_ties_the_head(tmp_path):
    inner = families()["gemma3"]["config"] | {"tie_word_embeddings": False}
    folder = write_whole(
        tmp_path / "m", "gemma3", "gemma3", "Gemma3", "language_model.model.", text_config=inner
    )
    np.testing.assert_allclose(
        load_floats(folder).logits(TOKENS.tolist()), reference_logits("gemma3"), atol=1e-3
    )


@pytest.mark.parametrize(
    "kind, family, architecture, changed, named",
    [
        ("llava", "cohere2", "Llava", {}, "scales its logits"),
        ("gemma3", "gemma3", "Other", {}, "architectures"),
        ("gemma3", "gemma3", "Gemma3", {"mixes_images": 3}, "mixes_images"),
        ("paligemma", "gemma", "PaliGemma", {}, "reads more than text"),
    ],
)
def test_what_differs_from_the_language_model_is_refused_by_name(
    tmp_path, kind, family, architecture, changed, named
):
    folder = write_whole(tmp_path / "m", kind, family, architecture, "language_model.model.", **changed)
    with pytest.raises(UnsupportedError, match=named):
        load_floats(folder)


def test_tensors_of_unknown_parts_are_refused_by_name(tmp_path):
    folder = write_whole(tmp_path / "m", "gemma3", "gemma3", "Gemma3", "language_model.model.")
    save_file({"depth_tower.weight": np.zeros(3, np.float32)}, folder / "more.safetensors")
    with pytest.raises(UnsupportedError, match="depth_tower"):
        load_floats(folder)
