"""Decoders with nf4 keep its 4 bits; only the products with these weights read floats."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, write_quantized_gguf

from intact import lm
from intact.formats import floats_of
from intact.numerics import BlockWeights, code_values, dequantize_blocks


def round_to_nf4(weight) -> BlockWeights:
    floats = np.asarray(floats_of(weight), np.float32).reshape(len(weight.codes), -1, 32)
    values, scales = code_values("nf4"), np.abs(floats).max(axis=-1)
    distances = np.abs(floats[..., None] / scales[..., None, None] - values)
    codes = distances.argmin(axis=-1).astype(np.uint8)
    return BlockWeights(codes.reshape(weight.shape), "nf4", scales, 32)


def load_encoded(monkeypatch, path, encode, **options):
    module = importlib.import_module("intact.lm.decoders.weight_encoder")
    monkeypatch.setattr(module, "weight_encoder", lambda *choices: encode)
    return lm.load(path, threads=1, **options)


@pytest.mark.parametrize("roles", [("q", "down"), ()], ids=["two roles", "all roles"])
def test_nf4_weights_have_the_bits_of_their_floats(roles, monkeypatch, tmp_path):
    path = write_quantized_gguf(tmp_path / "small.gguf", "Q8_0")

    def encode(role, layer, weight):
        return round_to_nf4(weight) if not roles or role in roles else weight

    def encode_floats(role, layer, weight):
        return dequantize_blocks(round_to_nf4(weight)) if not roles or role in roles else weight

    model = load_encoded(monkeypatch, path, encode)
    steps = [step for step in model.engine.plan.steps if hasattr(step, "bits")]
    tables = [step for step in steps if step.table]
    assert {step.kind for step in tables} - {"block_gather"} == {"block_float_linear"}
    assert all(step.bits == 4 for step in tables)
    assert ("block_linear" in {step.kind for step in steps}) == bool(roles)
    got = model.logits(TOKENS)
    assert got.tobytes() == load_encoded(monkeypatch, path, encode_floats).logits(TOKENS).tobytes()
    want = load_encoded(monkeypatch, path, encode, backend="reference").logits(TOKENS)
    assert got.tobytes() == want.tobytes()
    lm.save(model, tmp_path / "saved")
    assert lm.load(tmp_path / "saved", threads=1).logits(TOKENS).tobytes() == got.tobytes()
