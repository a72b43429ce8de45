"""Fields of published configurations that transformers' own classes do not write."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, families, reference_logits, write_folder

from intact import lm
from intact.errors import FileFormatError, UnsupportedError

PUBLISHED = {
    "deepseek_v2": {"aux_loss_alpha": 0.001, "ep_size": 1, "moe_layer_freq": 1, "scoring_func": "softmax",
                    "seq_aux": True, "topk_method": "greedy"},
    "deepseek_v3": {"aux_loss_alpha": 0.001, "ep_size": 1, "moe_layer_freq": 1, "scoring_func": "sigmoid",
                    "seq_aux": True, "topk_method": "noaux_tc", "num_nextn_predict_layers": 1},
    "falcon_h1": {"mamba_use_mlp": True, "mlp_expansion_factor": 8, "time_step_min": 0.001, "head_dim": 8,
                  "time_step_max": 0.1, "time_step_floor": 0.0001, "time_step_rank": 256},
    "granitemoehybrid": {"init_method": "mup", "normalization_function": "rmsnorm"},
    "nemotron_h": {"num_query_groups": 2, "time_step_rank": 256, "rms_norm_eps": 1e-5},
    "bloom": {"offset_alibi": 100, "seq_length": 2048, "n_inner": None, "masked_softmax_fusion": True,
              "n_embed": 48, "skip_bias_add": True, "unk_token_id": 0},
    "falcon_mamba": {"d_inner": 64, "d_model": 32, "n_layer": 3, "fused_add_norm": True, "rms_norm": True,
              "ssm_cfg": {}, "intermediate_size": 64},
}  # fmt: skip
OTHERWISE = {
    "deepseek_v2": {"scoring_func": "sigmoid"},
    "deepseek_v3": {"topk_method": "greedy"},
    "granitemoehybrid": {"normalization_function": "layernorm"},
    "bloom": {"apply_residual_connection_post_layernorm": True},
    "mpt": {"expansion_ratio": 2},
    "deepseek_v32": {"scoring_func": "softmax"},
}


def write_changed(family, folder, fields):
    """Write a folder whose configuration has other fields."""
    path = write_folder(family, folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


@pytest.mark.parametrize("family", PUBLISHED)
def test_fields_that_change_nothing_are_listed(family, tmp_path):
    folder = write_changed(family, tmp_path / family, PUBLISHED[family])
    logits = lm.load(folder, weights="float32", threads=1).logits(TOKENS)
    np.testing.assert_allclose(logits, reference_logits(family), atol=1e-4)


@pytest.mark.parametrize("family", OTHERWISE)
def test_other_values_are_refused_by_name(family, tmp_path):
    ((field, _),) = OTHERWISE[family].items()
    with pytest.raises(UnsupportedError, match=field):
        lm.load(write_changed(family, tmp_path / family, OTHERWISE[family]), weights="float32")


def test_heads_need_not_fill_the_residual_stream(tmp_path):
    wider = {"head_dim": 16}
    with pytest.raises(FileFormatError, match="q_proj"):  # a size that is used, not refused
        lm.load(write_changed("granite", tmp_path / "granite", wider), weights="float32")
    with pytest.raises(UnsupportedError, match="head_dim"):
        lm.load(write_changed("gpt_neox", tmp_path / "gpt_neox", wider), weights="float32")


def test_layers_behind_the_last_propose_tokens(tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = write_folder("glm4_moe", tmp_path / "m")
    path = folder / "model.safetensors"
    layers = families()["glm4_moe"]["config"]["num_hidden_layers"]
    own = {f"model.layers.{layers}.eh_proj.weight": np.ones((32, 64), np.float32)}
    save_file(load_file(path) | own, path)
    logits = lm.load(folder, weights="float32", threads=1).logits(TOKENS)
    np.testing.assert_allclose(logits, reference_logits("glm4_moe"), atol=1e-4)
    save_file(load_file(path) | {"model.layers.0.eh_proj.weight": np.ones((32, 64), np.float32)}, path)
    with pytest.raises(UnsupportedError, match=r"layers\.0\.eh_proj"):
        lm.load(folder, weights="float32")
