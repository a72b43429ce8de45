"""Weights of GGUF files run with the codes of the file; the engine equals the reference in every type."""

from __future__ import annotations

import gc
import json

import numpy as np
import onnx_ir
import pytest
from tests.lm.small_decoders import TOKENS, random_blocks, write_folder, write_quantized_gguf

from intact import lm
from intact.cli import main
from intact.errors import SecondRoundingWarning
from intact.formats import floats_of, open_weights, take_rows
from intact.formats.ggml_blocks import CODECS
from intact.lm.saved_folder import SETTINGS
from intact.numerics import dequantize_blocks

BITS = {
    "Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q2_K": 2, "Q3_K": 3, "Q4_K": 4, "Q5_K": 5,
    "Q6_K": 6, "IQ4_NL": 4, "IQ4_XS": 4, "TQ1_0": 2, "TQ2_0": 2, "MXFP4": 4, "NVFP4": 4,
}  # fmt: skip
"""Of the codes that a plan has of each type."""
PARTS = {"embedding": "token_embd", "logits": "output", "0.q": "blk.0.attn_q", "1.down": "blk.1.ffn_down"}


@pytest.fixture(scope="module", params=CODECS)
def file(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "small.gguf"
    return request.param, write_quantized_gguf(path, request.param, head="Q6_K")


def test_a_plan_has_the_codes_of_the_file(file):
    kind, path = file
    plan = lm.load(path, threads=1).engine.plan
    steps, weights = {step.name: step for step in plan.steps if hasattr(step, "bits")}, open_weights(path)
    assert not {"onnx", "float_linear"} & {step.kind for step in plan.steps}
    for name, stored in PARTS.items():
        step, tensor = steps[name], weights.read(f"{stored}.weight")
        codes = step.weights(plan.constants.__getitem__)
        assert step.bits == BITS["Q6_K" if name == "logits" else kind]
        assert np.array_equal(dequantize_blocks(codes), floats_of(tensor))
        if tensor.format.startswith(("int", "uint")):
            shift = 2 ** (step.bits - 1) if tensor.format.startswith("int") else 0
            assert np.array_equal(codes.codes, tensor.codes.astype(np.int16) + shift)


def test_float_activations_have_the_bits_of_float_weights(file):
    _, path = file
    loaded = lm.load(path, activations="float", threads=1)
    assert {"block_float_linear", "block_gather"} <= {step.kind for step in loaded.engine.plan.steps}
    floats = lm.load(path, weights="float32", threads=1).logits(TOKENS)
    assert np.abs(floats).max() < 1e4
    assert loaded.logits(TOKENS).tobytes() == floats.tobytes()


def test_the_engine_equals_the_reference(file):
    _, path = file
    got, want = (lm.load(path, backend=name, threads=1).logits(TOKENS) for name in ("cpu", "reference"))
    assert got.tobytes() == want.tobytes()
    floats = lm.load(path, weights="float32", threads=1).logits(TOKENS)
    assert 0 < np.linalg.norm(got - floats) < 0.1 * np.linalg.norm(floats)


@pytest.mark.parametrize("kind", ["Q4_1", "Q5_0", "Q6_K", "IQ4_XS"])
def test_a_saved_model_has_the_same_codes(kind, tmp_path):
    loaded = lm.load(write_quantized_gguf(tmp_path / "small.gguf", kind), threads=1)
    lm.save(loaded, tmp_path / "saved")
    again = lm.load(tmp_path / "saved", threads=1)
    assert again.logits(TOKENS).tobytes() == loaded.logits(TOKENS).tobytes()


def test_a_tied_head_shares_the_codes_of_the_embedding(tmp_path):
    plan = lm.load(write_quantized_gguf(tmp_path / "tied.gguf", "Q5_K"), threads=1).engine.plan
    steps = {step.name: step for step in plan.steps}
    assert steps["logits"].weight == steps["embedding"].weight
    assert plan.constants[steps["logits"].weight].nbytes == 64 * 256 * 5 // 8


@pytest.mark.parametrize("kind", ["IQ4_NL", "IQ4_XS", "MXFP4", "Q5_0"])
def test_embeddings_are_read_from_panels_that_the_head_has(kind, tmp_path):
    """A run of another length comes behind the first one's packing."""
    path = write_quantized_gguf(tmp_path / "tied.gguf", kind)
    expected = lm.load(path, backend="reference").logits(TOKENS)
    model = lm.load(path, threads=1)
    first, second = model.logits(TOKENS), model.logits(TOKENS[:5])
    assert first.tobytes() == expected.tobytes()
    assert second.tobytes() == expected[:5].tobytes()


def test_no_graph_outlives_loading(tmp_path):
    path = write_quantized_gguf(tmp_path / "small.gguf", "Q4_0")
    lm.load(path, threads=1)
    gc.collect()
    gc.disable()
    try:
        model = lm.load(path, threads=1)
        assert not [each for each in gc.get_objects() if type(each) is onnx_ir.Graph]
    finally:
        gc.enable()
    assert model.engine.plan.steps


def test_fused_projections_keep_their_minima():
    weights = random_blocks(np.random.default_rng(0), "Q4_K", 8, 512)
    rows = take_rows(weights, slice(2, 5))
    assert np.array_equal(floats_of(rows), floats_of(weights)[2:5])


def test_codes_that_are_rounded_again_give_a_warning(tmp_path):
    path = write_quantized_gguf(tmp_path / "small.gguf", "Q4_1")
    assert lm.stored_code_bits(path) == 5.0
    with pytest.warns(SecondRoundingWarning, match=r"holds codes of 5.00 bits .* int8 .* not smaller"):
        lm.load(path, weights="int8", threads=1)
    with pytest.warns(SecondRoundingWarning, match=r"int4 in blocks of 32 has 4.50, which is smaller"):
        lm.load(path, weights="int4", threads=1)
    lm.load(path, threads=1)


@pytest.mark.parametrize(("options", "weights"), [((), "keep"), (("--weights", "float32"), "float32")])
def test_the_command_keeps_codes_by_default(options, weights, tmp_path):
    path, out = write_quantized_gguf(tmp_path / "small.gguf", "Q4_1"), tmp_path / "out"
    with pytest.raises(SystemExit, match="0"):
        main(["lm", "quantize", str(path), "-o", str(out), *options])
    assert json.loads((out / SETTINGS).read_text())["settings"]["weights"] == weights


def test_the_command_rounds_floats_to_int4_by_default(tmp_path):
    folder, out = write_folder("llama", tmp_path / "llama"), tmp_path / "out"
    assert lm.stored_code_bits(folder) == 0.0
    with pytest.raises(SystemExit, match="0"):
        main(["lm", "quantize", str(folder), "-o", str(out), "--block", "16"])
    assert json.loads((out / SETTINGS).read_text())["settings"]["weights"] == "int4"
