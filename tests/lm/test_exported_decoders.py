"""ONNX files of onnxruntime-genai's builder as language models, beside ONNX Runtime.

exported_qwen3 was written by onnxruntime-genai 0.18 (``builder -p int4 -e cpu --extra_options
int4_accuracy_level=4 int4_block_size=32``) from a Qwen3 of random weights: 2 layers, 32 wide, 64 tokens.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.lm.small_decoders import TOKENS

from intact import lm
from intact.errors import FileAccessError, FileFormatError, IntactError, QuantValueError, UnsupportedError

FOLDER = Path(__file__).parent / "exported_qwen3"


@pytest.fixture(scope="module")
def model():
    return lm.load(FOLDER, threads=1)


@pytest.fixture
def copy(tmp_path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "copy"))


def runtime_logits(tokens) -> np.ndarray:
    session = onnxruntime.InferenceSession(FOLDER / "model.onnx")
    feeds = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, len(tokens)), np.int64)}
    for port in session.get_inputs():
        if port.name.startswith("past_key_values"):
            feeds[port.name] = np.zeros((1, port.shape[1], 0, 16), np.float32)
    return session.run(["logits"], feeds)[0][0]


def test_logits_are_those_of_the_runtime(model):
    assert {step.kind for step in model.engine.plan.steps} >= {"block_linear", "cached_attention", "rotary"}
    assert "onnx" not in {step.kind for step in model.engine.plan.steps}
    np.testing.assert_allclose(model.logits(TOKENS), runtime_logits(TOKENS), atol=1e-5)


def test_engine_equals_the_reference_and_chunks_change_no_bit(model):
    expected = lm.load(FOLDER, backend="reference").logits(TOKENS)
    cache = model.new_cache(2)
    rows = [cache.append(TOKENS[at : at + 5], range(len(TOKENS[at : at + 5])), 1) for at in range(0, 24, 5)]
    assert np.concatenate(rows).tobytes() == expected.tobytes()


def test_a_saved_model_generates_the_same_tokens(model, tmp_path):
    lm.save(model, tmp_path / "saved")
    saved = lm.load(tmp_path / "saved", threads=2)
    assert saved.positions == model.positions == 128
    tokens = list(model.generate_tokens(TOKENS, max_tokens=16))
    assert list(saved.generate_tokens(TOKENS, max_tokens=16)) == tokens


@pytest.mark.parametrize("options", [{"weights": "int4"}, {"positions": 129}, {"positions": 0}])
def test_what_the_file_does_not_have_is_refused(options):
    with pytest.raises(QuantValueError):
        lm.load(FOLDER, **options)


def change(record: dict, place: tuple[str, ...], value: object) -> dict:
    head, *rest = place
    changed = change(record.get(head, {}), tuple(rest), value) if rest else value
    return record | {head: changed}


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        (("model",), [], FileFormatError),
        (("model", "context_length"), "128", FileFormatError),
        (("model", "context_length"), -1, FileFormatError),
        (("model", "decoder", "filename"), "../model.onnx", FileFormatError),
        (("model", "decoder", "filename"), "other.onnx", FileAccessError),
        (("model", "decoder", "inputs", "input_ids"), "ids", UnsupportedError),
        (("model", "decoder", "inputs", "past_key_names"), "past.%d", UnsupportedError),
        (("model", "decoder", "inputs", "past_key_names"), None, FileFormatError),
        (("model", "decoder", "outputs", "logits"), "hidden", UnsupportedError),
    ],
)
def test_damaged_settings_are_refused(copy, place, value, error):
    path = copy / "genai_config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()), place, value)))
    with pytest.raises(error):
        lm.load(copy)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
def test_settings_that_are_no_object_are_refused(copy, text):
    (copy / "genai_config.json").write_text(text)
    with pytest.raises(FileFormatError):
        lm.load(copy)


def read_mask(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Cast", ["attention_mask"], ["mask"], name="whole_mask", to=1))
    graph.output.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, None))


def attend_otherwise(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        if node.op_type == "GroupQueryAttention":
            node.op_type, node.domain = "Attention", ""


def cut_lengths(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        if node.op_type == "GroupQueryAttention":
            node.input[5] = ""


@pytest.mark.parametrize("edit", [read_mask, attend_otherwise, cut_lengths])
def test_other_graphs_are_refused(copy, edit):
    model = onnx.load(copy / "model.onnx", load_external_data=False)
    edit(model.graph)
    (copy / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(IntactError):
        lm.load(copy)
