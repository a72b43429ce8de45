"""Decoders with states in place of keys and values: exact, and exact again when tokens are forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, write_folder
from tests.runtime_operators import need_runtime_operator

from intact import lm
from intact.errors import UnsupportedError
from intact.lm.decoders.calibrated_weights import calibrated_model, float_model, prompt_inputs
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.generate import prefill

FAMILIES = (
    "lfm2", "qwen3_5", "mamba2", "falcon_h1", "granitemoehybrid", "nemotron_h", "qwen3_next",
    "falcon_mamba", "jamba",
)  # fmt: skip
FOLLOWING = (7, 9, 11)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: write_folder(name, tmp_path_factory.mktemp("models") / name) for name in FAMILIES}


@pytest.fixture(scope="module")
def model(folders):
    return lm.load(folders["qwen3_5"], weights="int4", block=16, threads=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_batches_threads_and_backends_change_no_bit(family, folders):
    options = {"weights": "int4", "block": 8, "positions": 64}
    reference = lm.load(folders[family], backend="reference", **options)
    model = lm.load(folders[family], threads=1, **options)
    kinds = {step.kind for step in model.engine.plan.steps}
    assert "onnx" not in kinds and not model.engine.plan.model, "one plan serves all lengths"
    assert "transpose" not in kinds
    expected = model.logits(TOKENS)
    assert expected.tobytes() == reference.logits(TOKENS).tobytes()
    cache = lm.load(folders[family], threads=2, **options).new_cache(3)
    for sequence, chunk in ((2, 1), (0, 7), (1, 24)):
        parts = [TOKENS[at : at + chunk] for at in range(0, len(TOKENS), chunk)]
        rows = [cache.append(part, range(len(part)), sequence) for part in parts]
        assert np.concatenate(rows).tobytes() == expected.tobytes()
    together = cache.append_each([5, 6, 5])
    assert together[0].tobytes() == together[2].tobytes() == model.logits([*TOKENS, 5])[-1].tobytes()


@pytest.mark.parametrize("length", [0, 5, 10, 13, 24])
def test_tokens_that_are_forgotten_leave_no_trace(model, length):
    cache = model.new_cache(1)
    cache.append(TOKENS[:10])
    cache.append(TOKENS[10:24])
    cache.truncate(length)
    assert cache.lengths == [length]
    expected = model.logits([*TOKENS[:length], *FOLLOWING])[-1]
    assert cache.append(FOLLOWING)[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("length", [None, 5, 12, 24])
def test_copies_of_beginnings_have_their_states(model, length):
    cache = model.new_cache(2)
    cache.append(TOKENS[:10])
    cache.append(TOKENS[10:24])
    cache.append([3, 4], sequence=1)
    cache.copy(0, 1, length)
    cache.swap(0, 1)
    for sequence, tokens in enumerate((TOKENS[:length], TOKENS[:24])):
        expected = model.logits([*tokens, *FOLLOWING])[-1]
        assert cache.append(FOLLOWING, sequence=sequence)[0].tobytes() == expected.tobytes()


def test_a_prompt_goes_on_where_a_copy_of_states_is(model):
    cache = model.new_cache(1)
    cache.append(TOKENS[:10])
    cache.append(TOKENS[10:20])
    other = [*TOKENS[:14], 1, 2, 3]
    assert cache.rewind(other) == 10, "behind the last copy that is short enough"
    assert prefill(cache, other).tobytes() == model.logits(other)[-1].tobytes()
    longer = [*other, 5, 6]
    assert cache.rewind(longer) == len(other), "nothing is forgotten"


def test_states_are_counted_as_memory(model):
    cache = model.new_cache(2)
    states = sum(array.nbytes for array in cache._states.values())
    assert cache.state_bytes * 2 == states > 0
    assert cache.nbytes == 2 * cache.room * cache.token_bytes + states


@pytest.mark.parametrize("family", ["nemotron_h", "mamba2"])
def test_weights_are_calibrated_through_states(family, folders):
    """ONNX Runtime runs the float model, whose states are operators of its own."""
    need_runtime_operator("LinearAttention")
    weights = DecoderWeights(folders[family])
    windows = [np.asarray(TOKENS), np.asarray(TOKENS[::-1])]
    assert float_model(weights, 64, {}, 16).graph.outputs
    assert {name for name in prompt_inputs(weights, windows[0]) if name.startswith("recurrent.")}
    model = calibrated_model(
        weights, 64, windows, format="int4", block=16, method="gptq", bits_of={"head": "int8"}
    )
    assert {"MatMulNBits", "LinearAttention", "CausalConvWithState"} <= {node.op_type for node in model.graph}


def test_layers_that_say_how_fast_states_fade_stay_in_floats(model):
    steps = {step.name: step.kind for step in model.engine.plan.steps}
    assert steps["0.mixer_step"] == steps["0.mixer_rate"] == "float_linear"
    assert steps["0.mixer_x"] == steps["0.mixer_out"] == "block_linear"


@pytest.mark.parametrize("cache", ["float32", "int8"])
def test_a_saved_model_has_the_same_states(cache, folders, tmp_path):
    model = lm.load(folders["falcon_h1"], weights="int4", block=16, cache=cache, positions=64)
    lm.save(model, tmp_path / "saved")
    again = lm.load(tmp_path / "saved")
    assert again.logits(TOKENS).tobytes() == model.logits(TOKENS).tobytes()
    assert again.new_cache().state_bytes == model.new_cache().state_bytes > 0


def test_rotations_are_refused(folders):
    with pytest.raises(UnsupportedError, match="do not let a rotation through"):
        lm.load(folders["qwen3_5"], weights="int4", block=16, rotate=True)
