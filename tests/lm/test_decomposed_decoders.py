"""Decoders in plain operators as language models, beside ONNX Runtime on the same files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.lm.decomposed_decoders import LAYERS, POSITIONS, WORDS, Form, runtime_logits, write_decoder
from tests.onnx_models import onnx_graph, onnx_model

from intact import lm
from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError

TOKENS = np.random.default_rng(2).integers(0, WORDS, 20)
OPTIMUM = Path(__file__).parent / "exported_llama"
"""Written by optimum-onnx 0.1 from a Llama of random weights: 2 layers, 16 wide, 64 tokens."""

FORMS = {
    "plain": Form(),
    "where": Form(mask="where", kv_heads=4),
    "scaled": Form(scale_both=True, kv_heads=1),
    "capped": Form(cap=2.0),
    "window": Form(window=5),
    "interleaved": Form(rotation="interleaved"),
    "partial": Form(pairs=3),
    "interleaved-partial": Form(rotation="interleaved", pairs=2),
    "counted": Form(has_positions=False),
    "learned": Form(rotation="none", learned=True),
    "learned-counted": Form(rotation="none", learned=True, has_positions=False),
    "uncached": Form(cached=False),
    "uncached-counted": Form(cached=False, has_positions=False, window=6),
    "uncached-learned": Form(cached=False, has_positions=False, rotation="none", learned=True),
}


def in_chunks(model: lm.LanguageModel, size: int) -> np.ndarray:
    cache = model.new_cache(2)
    parts = [TOKENS[at : at + size] for at in range(0, len(TOKENS), size)]
    return np.concatenate([cache.append(part, range(len(part)), 1) for part in parts])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_logits_are_those_of_the_runtime(tmp_path, form):
    path = write_decoder(tmp_path, form)
    model = lm.load(tmp_path, threads=1)
    kinds = [step.kind for step in model.engine.plan.steps]
    assert kinds.count("cached_attention") == LAYERS
    assert kinds.count("rotary") == (0 if form.rotation == "none" else 2 * LAYERS)
    assert "onnx" not in kinds
    assert model.positions == POSITIONS
    logits = model.logits(TOKENS)
    np.testing.assert_allclose(logits, runtime_logits(path, TOKENS), atol=1e-4)
    assert in_chunks(model, 3).tobytes() == logits.tobytes()


@pytest.mark.parametrize("form", [Form(), Form(rotation="none", learned=True)], ids=["rotated", "learned"])
def test_sequences_of_a_batch_have_positions_of_their_own(tmp_path, form):
    write_decoder(tmp_path, form)
    model = lm.load(tmp_path, threads=1)
    cache, logits = model.new_cache(2), model.logits(TOKENS)
    cache.append(TOKENS[:4])
    cache.append(TOKENS[:11], sequence=1)
    assert cache.append_each(TOKENS[[4, 11]]).tobytes() == logits[[4, 11]].tobytes()


def test_engine_equals_the_reference(tmp_path):
    path = write_decoder(tmp_path, Form(window=7))
    expected = lm.load(path, backend="reference").logits(TOKENS)
    assert lm.load(path, threads=1).logits(TOKENS).tobytes() == expected.tobytes()


def test_a_file_of_optimum_runs_as_in_the_runtime(tmp_path):
    model = lm.load(OPTIMUM, threads=1)
    assert {step.kind for step in model.engine.plan.steps} >= {"rotary", "cached_attention"}
    logits = model.logits(TOKENS)
    np.testing.assert_allclose(logits, runtime_logits(OPTIMUM / "model.onnx", TOKENS), atol=1e-5)
    lm.save(model, tmp_path / "saved")
    saved = lm.load(tmp_path / "saved", threads=2)
    assert saved.logits(TOKENS).tobytes() == logits.tobytes()
    assert model.embed([TOKENS]).shape == (1, 16)


REFUSED = {
    "biases": (Form(bias=0.1), "biases"),
    "tokens ahead": (Form(reach=1), "mask"),
    "growing angles": (Form(rotation="growing"), "angles"),
}


@pytest.mark.parametrize(("form", "word"), REFUSED.values(), ids=REFUSED)
def test_what_no_cache_can_do_is_refused(tmp_path, form, word):
    path = write_decoder(tmp_path, form)
    with pytest.raises(UnsupportedError, match=word) as error:
        lm.load(path)
    assert str(path) in error.value.where or "'" in error.value.where


def rename_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = "inputs_embeds"


def read_mask(model: onnx.ModelProto) -> None:
    model.graph.node.append(onnx.helper.make_node("Cast", ["attention_mask"], ["whole"], to=1))
    model.graph.node.append(onnx.helper.make_node("ReduceMean", ["whole"], ["mean"], name="mean_of_mask"))
    head = next(node for node in model.graph.node if "logits" in node.output)
    model.graph.node.remove(head)
    model.graph.node.append(onnx.helper.make_node("Mul", [head.input[0], "mean"], ["scaled"]))
    model.graph.node.append(onnx.helper.make_node("MatMul", ["scaled", head.input[1]], ["logits"]))


def drop_softmax(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.op_type = "Relu"
            del node.attribute[:]


def normalize_twice(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "Softmax":
            node.op_type = "LogSoftmax"


def share_cache(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.input[:] = [name.replace("past_key_values.1", "past_key_values.0") for name in node.input]


def share_keys_and_values(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.input[:] = [name.replace("0.value", "0.key") for name in node.input]


def add_softmax(model: onnx.ModelProto) -> None:
    model.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], ["chances"], name="chances"))
    model.graph.output[0].name = "chances"


@pytest.mark.parametrize(
    "edit",
    [rename_input, read_mask, drop_softmax, normalize_twice, add_softmax, share_cache, share_keys_and_values],
)
def test_other_graphs_are_refused(tmp_path, edit):
    path = write_decoder(tmp_path, Form())
    model = onnx.load(path)
    edit(model)
    onnx.save(model, path)
    with pytest.raises(IntactError):
        lm.load(path)


@pytest.mark.parametrize("positions", [0, -3, POSITIONS + 1])
def test_sequences_are_no_longer_than_the_model(tmp_path, positions):
    path = write_decoder(tmp_path, Form())
    with pytest.raises(QuantValueError):
        lm.load(path, positions=positions)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"max_position_embeddings": "x"}', '{"n_head": -1}'])
def test_configurations_may_be_damaged(tmp_path, text):
    path = write_decoder(tmp_path, Form())
    (tmp_path / "config.json").write_text(text)
    if text.startswith("{") and text.endswith("}"):
        np.testing.assert_allclose(lm.load(path).logits(TOKENS), runtime_logits(path, TOKENS), atol=1e-4)
    else:
        with pytest.raises(FileFormatError):
            lm.load(path)


def test_a_folder_of_several_files_names_them(tmp_path):
    path = write_decoder(tmp_path, Form())
    for name in ("first.onnx", "second.onnx"):
        shutil.copy(path, tmp_path / name)
    path.unlink()
    with pytest.raises(FileFormatError, match=r"first\.onnx"):
        lm.load(tmp_path)


def test_caches_of_float16_become_float32(tmp_path):
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    path = write_decoder(tmp_path, Form(mask="where"))
    expected = runtime_logits(path, TOKENS)
    onnx.save(float16.convert_float_to_float16(onnx.load(path)), path)
    model = lm.load(path, threads=1)
    assert model.logits(TOKENS).dtype == np.float32
    np.testing.assert_allclose(model.logits(TOKENS), expected, atol=3e-2)


def test_ranges_over_all_tokens_are_refused(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = write_decoder(tmp_path, Form())
    quantization.quantize_dynamic(path, tmp_path / "dynamic.onnx")
    with pytest.raises(UnsupportedError, match="weights='int8'"):
        lm.load(tmp_path / "dynamic.onnx")


def test_group_query_attention_needs_no_settings_of_the_builder(tmp_path):
    builders = Path(__file__).parent / "exported_qwen3"
    for name in ("model.onnx", "model.onnx.data"):
        shutil.copy(builders / name, tmp_path / name)
    with pytest.raises(UnsupportedError, match="head_dim"):
        lm.load(tmp_path)
    (tmp_path / "config.json").write_text('{"head_dim": 16}')
    with pytest.raises(QuantValueError):
        lm.load(tmp_path, positions=10**6)
    model, expected = lm.load(tmp_path, threads=1), lm.load(builders, threads=1).logits(TOKENS)
    assert model.positions == 128
    assert model.logits(TOKENS).tobytes() == expected.tobytes()


def test_of_merged_decoders_the_one_with_a_cache_runs(tmp_path):
    path = write_decoder(tmp_path, Form())
    expected, model = runtime_logits(path, TOKENS), onnx.load(path)
    outputs = list(model.graph.output)
    branches = []
    for name in ("then_branch", "else_branch"):
        body = onnx_graph(
            list(model.graph.node), outputs=outputs, initializers=list(model.graph.initializer), name=name
        )
        for part in (*body.node, *body.output, *body.initializer):
            if name == "else_branch":
                part.name = f"{part.name}_first"
        branches.append(onnx.helper.make_attribute(name, body))
    for node in branches[1].g.node:
        constants = {tensor.name.removesuffix("_first") for tensor in branches[1].g.initializer}
        ports = {port for other in model.graph.node for port in other.output}
        node.input[:] = [f"{port}_first" if port in constants | ports else port for port in node.input]
        node.output[:] = [f"{port}_first" for port in node.output]
    node = onnx.helper.make_node("If", ["use_cache_branch"], [port.name for port in outputs], name="choice")
    node.attribute.extend(branches)
    choice = onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    onnx.save(onnx_model([node], [*model.graph.input, choice], outputs, opset=18), path)
    np.testing.assert_allclose(lm.load(path, threads=1).logits(TOKENS), expected, atol=1e-4)


def relative_error(logits: np.ndarray, expected: np.ndarray) -> float:
    return float(np.square(logits - expected).sum() / np.square(expected).sum())


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"weights": "int8", "block": 16}, "block_linear"),
        ({"weights": "uint5", "block": 8, "bits_of": {"head": "int8"}}, "block_linear"),
        ({"weights": "int8", "block": 16, "activations": "float"}, "block_float_linear"),
        ({"weights": "keep", "bits_of": {"head": "int8"}, "block": 16}, "block_linear"),
        ({"weights": "int8", "bits_of": {"head": "float32"}, "block": 16}, "float_linear"),
    ],
)
def test_float_weights_get_codes(tmp_path, options, kind):
    path = write_decoder(tmp_path, Form())
    model = lm.load(path, threads=1, **options)
    assert kind in {step.kind for step in model.engine.plan.steps}
    logits = model.logits(TOKENS)
    assert (
        0
        < relative_error(logits, runtime_logits(path, TOKENS))
        < (1e-1 if "uint5" in options.values() else 1e-3)
    )
    assert in_chunks(model, 7).tobytes() == logits.tobytes()


@pytest.mark.parametrize("weights", ["int8", "keep"])
def test_a_head_that_is_the_embedding_gets_codes(tmp_path, weights):
    path = write_decoder(tmp_path, Form(tied=True))
    model = lm.load(path, threads=1, weights=weights, bits_of={"head": "int8"}, block=16)
    steps = {step.y: step for step in model.engine.plan.steps if hasattr(step, "y")}
    assert (steps["logits"].kind, steps["embedding"].kind) == ("block_linear", "block_gather")
    assert steps["logits"].weight == steps["embedding"].weight
    assert 0 < relative_error(model.logits(TOKENS), runtime_logits(path, TOKENS)) < 1e-3


def test_the_embedding_has_a_format_of_its_own(tmp_path):
    path = write_decoder(tmp_path, Form())
    model = lm.load(path, threads=1, weights="int8", bits_of={"embedding": "float32"}, block=16)
    assert "block_gather" not in {step.kind for step in model.engine.plan.steps}
    model = lm.load(path, threads=1, weights="keep", bits_of={"embedding": "int6"}, block=16)
    assert {step.bits for step in model.engine.plan.steps if step.kind == "block_gather"} == {6}
    assert 0 < relative_error(model.logits(TOKENS), runtime_logits(path, TOKENS)) < 1e-2


def test_codes_of_the_runtimes_quantizer_stay(tmp_path):
    quantizer = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    path = write_decoder(tmp_path, Form())
    work = quantizer.MatMulNBitsQuantizer(onnx.load(path), block_size=16, is_symmetric=True, accuracy_level=4)
    work.process()
    path = tmp_path / "codes.onnx"
    onnx.save(work.model.model, path)
    model = lm.load(path, threads=1)
    assert {"block_linear", "cached_attention"} <= {step.kind for step in model.engine.plan.steps}
    np.testing.assert_allclose(model.logits(TOKENS), runtime_logits(path, TOKENS), atol=1e-4)


@pytest.mark.parametrize("kind", ["FP4", "NF4"])
def test_four_bits_of_bitsandbytes_stay(kind, tmp_path):
    quantizer = pytest.importorskip("onnxruntime.quantization.matmul_bnb4_quantizer")
    path = write_decoder(tmp_path, Form())
    types = {"FP4": quantizer.MatMulBnb4Quantizer.FP4, "NF4": quantizer.MatMulBnb4Quantizer.NF4}
    work = quantizer.MatMulBnb4Quantizer(onnx.load(path), quant_type=types[kind], block_size=16)
    work.process()
    path = tmp_path / "codes.onnx"
    onnx.save(work.model.model, path)
    model = lm.load(path, threads=1)
    steps = [step for step in model.engine.plan.steps if step.kind == "block_float_linear"]
    assert steps and all(step.table and step.bits == 4 for step in steps)
    np.testing.assert_allclose(model.logits(TOKENS), runtime_logits(path, TOKENS), atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"bits_budget": 4.5},
        {"rotate": True},
        {"activations": "float"},
        {"weights": "int8", "bits_of": {"0.q": "int4"}},
        {"text": "words"},
    ],
)
def test_options_of_weight_files_are_refused(tmp_path, options):
    path = write_decoder(tmp_path, replace(Form(), cached=True))
    with pytest.raises(QuantValueError):
        lm.load(path, **options)
