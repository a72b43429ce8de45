"""Rotations of a decoder: other weights, and the same function."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, write_folder

from intact import lm
from intact.engine import compile as compile_model
from intact.errors import UnsupportedError
from intact.lm.decoders.decoder_graph import decoder_model
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.rotated_weights import RotatedWeights, random_rotation
from intact.lm.decoders.weight_encoder import weight_encoder
from intact.lm.language_model import LanguageModel


def logits(weights) -> np.ndarray:
    model = decoder_model(weights, 64, weight_encoder("float32"))
    return LanguageModel(compile_model(model, threads=1), 64).logits(TOKENS)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "phi3", "granite", "gemma", "smollm3"])
def test_a_rotated_decoder_is_the_same_function(family, tmp_path):
    folder = write_folder(family, tmp_path)
    plain, rotated = DecoderWeights(folder), RotatedWeights(DecoderWeights(folder))
    weight = rotated.linear("q")
    assert np.abs(weight - plain.linear("q")).max() > 0.01
    expected = logits(plain)
    np.testing.assert_allclose(logits(rotated), expected, atol=1e-4 * np.abs(expected).max())


def test_a_rotated_model_has_codes_and_is_saved(tmp_path):
    folder = write_folder("llama", tmp_path / "llama")
    plain = lm.load(folder, weights="int8", block=16).logits(TOKENS)
    model = lm.load(folder, weights="int8", block=16, rotate=True)
    assert 0 < np.abs(model.logits(TOKENS) - plain).max() < 0.1 * np.abs(plain).max()
    lm.save(model, tmp_path / "saved")
    assert lm.load(tmp_path / "saved").logits(TOKENS).tobytes() == model.logits(TOKENS).tobytes()


@pytest.mark.parametrize("family", ["gemma2", "gpt2", "starcoder2"])
def test_norms_that_no_rotation_passes_are_refused(family, tmp_path):
    with pytest.raises(UnsupportedError, match=family):
        RotatedWeights(DecoderWeights(write_folder(family, tmp_path)))


@pytest.mark.parametrize("size", [1, 9, 64, 576])
def test_a_rotation_spreads_every_element(size):
    rotation = random_rotation(size, 0)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(size), atol=1e-12)
    assert (random_rotation(size, 0) == rotation).all()
    if size == 64:
        np.testing.assert_allclose(np.abs(rotation), 1 / 8)
    if size == 576:
        assert np.abs(rotation).max() < 0.2
