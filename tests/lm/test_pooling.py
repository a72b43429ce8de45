"""Vectors of texts are those that a model's own files describe."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, write_folder

from intact import lm
from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError

TRANSFORMER = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
NORMALIZE = {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}


def write_embedder(folder, pooling, modules=(TRANSFORMER, POOLING, NORMALIZE), **files):
    write_folder("qwen3", folder)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    contents = {"modules.json": list(modules), "1_Pooling/config.json": pooling, **files}
    for name, value in contents.items():
        (folder / name).write_text(json.dumps(value))
    return folder


def states_of(model) -> np.ndarray:
    cache = model.new_cache()
    return cache.append_states(list(map(int, TOKENS)), 0).astype(np.float64)


EXPECTED = {
    "pooling_mode_mean_tokens": lambda s: s.mean(0), "pooling_mode_cls_token": lambda s: s[0],
    "pooling_mode_lasttoken": lambda s: s[-1], "pooling_mode_max_tokens": lambda s: s.max(0),
    "pooling_mode_weightedmean_tokens": lambda s: np.average(s, 0, np.arange(1, len(s) + 1)),
    "pooling_mode_mean_sqrt_len_tokens": lambda s: s.sum(0) / np.sqrt(len(s)),
}  # fmt: skip


@pytest.mark.parametrize("flag", EXPECTED)
def test_the_mode_of_the_folder_is_the_default(flag, tmp_path):
    flags = {name: name == flag for name in EXPECTED} | {
        "word_embedding_dimension": 32,
        "include_prompt": True,
    }
    folder = write_embedder(tmp_path / "m", flags, (TRANSFORMER, POOLING))
    model = lm.load(folder, weights="float32", threads=1, positions=64)
    np.testing.assert_allclose(
        model.embed([TOKENS])[0], EXPECTED[flag](states_of(model)), rtol=2e-6, atol=1e-6
    )
    (folder / "modules.json").write_text(json.dumps([TRANSFORMER, POOLING, NORMALIZE]))
    vector = lm.load(folder, weights="float32", threads=1, positions=64).embed([TOKENS])[0]
    assert abs(np.linalg.norm(vector.astype(np.float64)) - 1) < 1e-6


@pytest.mark.parametrize(
    ("pooling", "modules", "files", "error"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, None, {}, UnsupportedError),
        ({"pooling_mode": "lasttoken", "pooling_mode_cls_token": True}, None, {}, UnsupportedError),
        ({"pooling_mode": "attention"}, None, {}, UnsupportedError),
        ({"pooling_mode_lasttoken": 1}, None, {}, FileFormatError),
        ({"pooling_mode_new": True}, None, {}, UnsupportedError),
        ({"include_prompt": False}, None, {}, UnsupportedError),
        ({}, (TRANSFORMER, POOLING, {"idx": 2, "name": "2", "path": "2_Dense", "type": "x.Dense"}), {},
         UnsupportedError),
        ({}, None, {"sentence_bert_config.json": {"do_lower_case": True}}, UnsupportedError),
        ({}, None, {"config_sentence_transformers.json": {"default_prompt_name": "q"}}, FileFormatError),
    ],
)  # fmt: skip
def test_what_is_not_computed_is_refused(pooling, modules, files, error, tmp_path):
    folder = write_embedder(tmp_path / "m", pooling, modules or (TRANSFORMER, POOLING), **files)
    with pytest.raises(error):
        lm.load(folder, threads=1)


def test_texts_longer_than_the_folder_says_are_refused(tmp_path):
    folder = write_embedder(tmp_path / "m", {}, **{"sentence_bert_config.json": {"max_seq_length": 23}})
    model = lm.load(folder, threads=1)
    assert model.embed([TOKENS[:23]]).shape == (1, 32)
    with pytest.raises(QuantValueError, match="at most 23"):
        model.embed([TOKENS])


@pytest.mark.parametrize("value", [True, 4, "last", -1])
def test_kinds_of_gguf_files_are_checked(value, tmp_path):
    from intact.formats.metadata_fields import MetadataFields
    from intact.lm.description.pooling import gguf_pooling

    with pytest.raises(IntactError):
        gguf_pooling(MetadataFields({"llama.pooling_type": value}, "m.gguf"), "llama")
    kinds = [
        gguf_pooling(MetadataFields({"llama.pooling_type": n}, "m.gguf"), "llama").kind for n in range(4)
    ]
    assert kinds == ["mean", "mean", "cls", "last"]
