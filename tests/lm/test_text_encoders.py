"""Vectors and scores of encoders are those of sentence-transformers' steps by hand, over ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.lm.server_clients import serve
from tests.onnx_models import onnx_model

import intact
from intact import lm
from intact.cli import main
from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *"abcdefghijklmnopqrstuvwxyz"]
WIDTH, POSITIONS = 64, 24
TEXTS = ["a b c", "the quick", "z", "q w e r t y u i o p"]
MODULES = [
    {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for number, (path, kind) in enumerate(
        [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    )
]
POOLING = {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True}
Files = Mapping[str, Any]


def write_tokenizer(folder: Path) -> None:
    model = tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer.normalizer = tokenizers.normalizers.Replace(" ", "")
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )  # fmt: skip
    tokenizer.enable_padding(length=16)  # which is for batches, and no part of a text
    tokenizer.save(str(folder / "tokenizer.json"))


def encoder_model(output: str, labels: int = 1) -> onnx.ModelProto:
    """Build a layer of attention with a mask over the sum of embeddings, and what `output` asks for."""
    rng = np.random.default_rng(0)
    arrays = {
        "words": rng.standard_normal((len(WORDS), WIDTH)), "kinds": rng.standard_normal((2, WIDTH)),
        "w": rng.standard_normal((WIDTH, WIDTH)) / 8, "head": rng.standard_normal((WIDTH, labels)) / 8,
        "eighth": np.array(0.125), "one": np.array(1.0), "far": np.array(1e4),
    }  # fmt: skip
    text = f"""
        t = Gather(words, input_ids)
        k = Gather(kinds, token_type_ids)
        x = Add(t, k)
        turned = Transpose<perm = [0, 2, 1]>(x)
        products = MatMul(x, turned)
        scaled = Mul(products, eighth)
        mask = Cast<to = 1>(attention_mask)
        hidden = Sub(mask, one)
        low = Mul(hidden, far)
        row = Unsqueeze(low, axis)
        scores = Add(scaled, row)
        shares = Softmax<axis = -1>(scores)
        mixed = MatMul(shares, x)
        layer = MatMul(mixed, w)
        states = Add(layer, x)
        first = Gather<axis = 1>(states, zero)
        marks = MatMul(first, head)
        {output} = Identity({"marks" if output == "logits" else "states"})
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    graph = onnx.parser.parse_graph(f"g (int64[n] unused) => (float y) {{ {' '.join(lines)} }}")
    shape: list[int | str | None] = ["n", labels] if output == "logits" else ["n", "s", WIDTH]
    tensors = {name: array.astype(np.float32) for name, array in arrays.items()}
    ports = {
        name: (TensorProto.INT64, ["n", "s"]) for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    integers = {"axis": np.array([1]), "zero": np.array(0)}
    return onnx_model(list(graph.node), ports, {output: shape}, {**tensors, **integers})


def write_encoder(
    folder: Path, output: str = "last_hidden_state", files: Files | None = None, labels: int = 1
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    contents = {
        "config.json": {"model_type": "bert", "max_position_embeddings": POSITIONS, "hidden_size": WIDTH},
        "modules.json": MODULES, "1_Pooling/config.json": POOLING, **(files or {}),
    }  # fmt: skip
    for name, content in contents.items():
        if content is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
    onnx.save(encoder_model(output, labels), folder / "model.onnx")
    return folder


def run_by_hand(folder: Path, *texts: str, output: str = "last_hidden_state") -> np.ndarray:
    """Return what ONNX Runtime says of a text, or of a pair."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokens = tokenizer.encode(*texts)
    feeds = {
        "input_ids": np.array([tokens.ids]), "attention_mask": np.ones((1, len(tokens.ids)), np.int64),
        "token_type_ids": np.array([tokens.type_ids]),
    }  # fmt: skip
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    return np.asarray(session.run([output], feeds)[0][0])


def vector_by_hand(folder: Path, text: str) -> np.ndarray:
    mean = run_by_hand(folder, text).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def test_vectors_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    encoder = lm.load_encoder(folder, threads=1)
    expected = np.stack([vector_by_hand(folder, text) for text in TEXTS])
    vectors = encoder.embed(TEXTS)
    assert vectors.dtype == np.float32 and encoder.size == WIDTH
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    np.testing.assert_array_equal(encoder.embed(TEXTS[::-1])[::-1], vectors)
    np.testing.assert_array_equal(encoder.embed([encoder.tokens(TEXTS[0])])[0], vectors[0])


def test_weights_of_eight_bits_keep_vectors(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    result = intact.quantize(
        folder / "model.onnx", weights="int8", activations="dynamic-int8", progress=False
    )
    (tmp_path / "apart").mkdir()
    result.save(tmp_path / "apart" / "model.int8.onnx")
    encoder = lm.load_encoder(tmp_path / "apart" / "model.int8.onnx", files=folder, threads=1)
    expected = np.stack([vector_by_hand(folder, text) for text in TEXTS])
    cosines = (encoder.embed(TEXTS) * expected).sum(axis=1)
    assert (cosines > 0.999).all() and (cosines < 1 - 1e-9).any()


@pytest.mark.parametrize(("pooling", "pick"), [("cls", 0), ("last", -1)])
def test_the_folder_says_how_states_are_pooled(tmp_path: Path, pooling: str, pick: int) -> None:
    mode = {"cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}[pooling]
    files = {"1_Pooling/config.json": {mode: True}, "modules.json": MODULES[:2]}
    folder = write_encoder(tmp_path / "encoder", files=files)
    vector = lm.load_encoder(folder, threads=1).embed(TEXTS[:1])[0]
    np.testing.assert_allclose(vector, run_by_hand(folder, TEXTS[0])[pick], atol=1e-5)


def test_prompts_stand_in_front(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "q r ", "none": ""}, "default_prompt_name": "query"}
    files = {"config_sentence_transformers.json": prompts}
    encoder = lm.load_encoder(write_encoder(tmp_path / "encoder", files=files), threads=1)
    np.testing.assert_array_equal(encoder.embed(["a b"]), encoder.embed(["q r a b"], prompt="none"))
    with pytest.raises(QuantValueError, match="prompt"):
        encoder.embed(["a"], prompt="document")


def test_long_texts_are_refused_or_cut_as_sentence_transformers_cuts(tmp_path: Path) -> None:
    files = {"sentence_bert_config.json": {"max_seq_length": 6, "do_lower_case": False}}
    folder = write_encoder(tmp_path / "encoder", files=files)
    encoder = lm.load_encoder(folder, threads=1)
    with pytest.raises(QuantValueError, match="at most 6"):
        encoder.embed(["a b c d e f"])
    np.testing.assert_array_equal(encoder.embed(["a b c d e f"], truncate=True), encoder.embed(["a b c d"]))
    without = write_encoder(tmp_path / "without")
    assert lm.load_encoder(without, threads=1).positions == POSITIONS


@pytest.mark.parametrize(
    ("config", "finish"),
    [
        ({}, lambda score: 1 / (1 + np.exp(-score))),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, lambda s: s),
    ],
)
def test_scores_are_those_of_cross_encoders(tmp_path: Path, config: Files, finish: Any) -> None:
    files = {"config.json": {"model_type": "bert", **config}, "modules.json": None}
    folder = write_encoder(tmp_path / "reranker", "logits", files)
    encoder = lm.load_encoder(folder, threads=1)
    expected = [finish(run_by_hand(folder, "a b", text, output="logits")[0]) for text in TEXTS]
    np.testing.assert_allclose(encoder.rank("a b", TEXTS), expected, atol=1e-5)
    assert encoder.is_reranker and lm.is_encoder(folder) and lm.is_encoder(folder / "model.onnx")
    with pytest.raises(UnsupportedError, match="reranker"):
        encoder.embed(TEXTS)


@pytest.mark.parametrize(
    ("files", "error", "name"),
    [
        ({"modules.json": [*MODULES, {**MODULES[0], "type": "models.Dense"}]}, UnsupportedError, "Dense"),
        ({"sentence_bert_config.json": {"do_lower_case": True}}, UnsupportedError, "do_lower_case"),
        ({"1_Pooling/config.json": {"pooling_mode": "attention"}}, UnsupportedError, "pooling_mode"),
        (
            {"config.json": {"sentence_transformers": {"activation_fn": "torch.nn.ReLU"}}},
            UnsupportedError, "sentence_transformers",
        ),
        ({"1_Pooling/config.json": {"pooling_mode_mean_tokens": "yes"}}, FileFormatError, "mean_tokens"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(
    tmp_path: Path, files: Files, error: type[IntactError], name: str
) -> None:
    with pytest.raises(error, match=name):
        lm.load_encoder(write_encoder(tmp_path / "encoder", files=files))


def test_nobody_guesses_a_pooling(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder", files={"modules.json": None})
    encoder = lm.load_encoder(folder, threads=1)
    with pytest.raises(QuantValueError, match="pooling"):
        encoder.embed(TEXTS)
    np.testing.assert_allclose(
        encoder.embed(TEXTS[:1], pooling="mean")[0], vector_by_hand(folder, TEXTS[0]), atol=1e-6
    )
    with pytest.raises(QuantValueError, match="pooling"):
        encoder.embed(TEXTS, pooling="sum")


def test_files_that_are_no_encoder_are_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    (folder / "model.onnx").rename(folder / "other.onnx")
    assert lm.load_encoder(folder, threads=1).size == WIDTH
    onnx.save(onnx_model([helper.make_node("Neg", ["x"], ["y"])], {"x": [1]}, {"y": [1]}), folder / "b.onnx")
    with pytest.raises(FileFormatError, match=r"one model\.onnx"):
        lm.load_encoder(folder)
    with pytest.raises(UnsupportedError, match="inputs"):
        lm.load_encoder(folder / "b.onnx")
    assert not lm.is_encoder(folder / "b.onnx") and not lm.is_encoder(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="no ONNX file"):
        lm.load_encoder(tmp_path / "empty")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileFormatError, match=r"tokenizer\.json"):
        lm.load_encoder(folder / "other.onnx")


def test_a_model_in_the_folder_onnx_has_the_files_above(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    for path in (folder, folder / "onnx" / "model.onnx"):
        assert lm.load_encoder(path, threads=1).positions == POSITIONS


# --- command line and server ----------------------------------------------------------------------------


def run_command(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert not stopped.value.code
    return capsys.readouterr().out


def test_the_command_prints_vectors_and_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_encoder(tmp_path / "encoder")
    run_command(capsys, "embed", folder, *TEXTS, "-o", tmp_path / "vectors.npy")
    expected = np.stack([vector_by_hand(folder, text) for text in TEXTS])
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, atol=1e-6)
    np.testing.assert_allclose(
        json.loads(run_command(capsys, "embed", folder, TEXTS[0])), expected[0], atol=1e-6
    )
    reranker = write_encoder(tmp_path / "reranker", "logits", {"modules.json": None})
    lines = run_command(capsys, "embed", reranker, "--query", "a b", *TEXTS).splitlines()
    scores = lm.load_encoder(reranker).rank("a b", TEXTS)
    assert lines[0] == f"{scores.max():.6f}  {TEXTS[int(scores.argmax())]}" and len(lines) == len(TEXTS)


def test_the_server_answers_with_vectors(tmp_path: Path) -> None:
    httpx = pytest.importorskip("httpx")
    folder = write_encoder(tmp_path / "encoder")
    encoder = lm.load_encoder(folder, threads=1)
    with serve(encoder, texts=8) as server, httpx.Client(base_url=server.url, timeout=600) as http:
        answer = http.post("/v1/embeddings", json={"model": "small", "input": TEXTS}).json()
        vectors = [entry["embedding"] for entry in answer["data"]]
        np.testing.assert_array_equal(np.asarray(vectors, np.float32), encoder.embed(TEXTS))
        assert answer["usage"]["prompt_tokens"] == sum(len(encoder.tokens(text)) for text in TEXTS)
        assert http.get("/v1/models").json()["data"][0]["max_model_len"] == POSITIONS
        assert http.get("/health").status_code == 200 and "intact_requests" in http.get("/metrics").text
        for path, body in (
            ("/v1/embeddings", {"input": "a", "dimensions": 3}), ("/v1/embeddings", {"input": "a" * 99}),
            ("/v1/rerank", {"query": "a", "documents": ["b"]}), ("/v1/embeddings", {"input": [[999]]}),
            ("/v1/embeddings", {"input": ["a"] * 9}),
        ):  # fmt: skip
            assert http.post(path, json=body).status_code == 400
        assert http.post("/v1/completions", json={"prompt": "a"}).status_code == 404


def test_the_server_answers_with_scores(tmp_path: Path) -> None:
    httpx = pytest.importorskip("httpx")
    folder = write_encoder(tmp_path / "reranker", "logits", {"modules.json": None})
    encoder = lm.load_encoder(folder, threads=1)
    with serve(encoder, texts=8) as server, httpx.Client(base_url=server.url, timeout=600) as http:
        body = {"model": "small", "query": "a b", "documents": [TEXTS[0], {"text": TEXTS[1]}, *TEXTS[2:]]}
        answer = http.post("/v1/rerank", json=body).json()
        scores = encoder.rank("a b", TEXTS)
        assert [result["index"] for result in answer["results"]] == list(np.argsort(-scores, kind="stable"))
        for result in answer["results"]:
            assert np.float32(result["relevance_score"]) == scores[result["index"]]
            assert result["document"]["text"] == TEXTS[result["index"]]
        short = http.post("/rerank", json={**body, "top_n": 2, "return_documents": False}).json()
        assert short["results"] == [
            {key: result[key] for key in ("index", "relevance_score")} for result in answer["results"][:2]
        ]
        change: dict[str, Any]
        for change in ({"query": 3}, {"documents": []}, {"documents": [{"body": "a"}]}, {"top_k": 3}):
            assert http.post("/v1/rerank", json={**body, **change}).status_code == 400
        assert http.post("/v1/embeddings", json={"input": "a"}).status_code == 400


def test_several_labels_are_no_score(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "classifier", "logits", {"modules.json": None}, labels=3)
    with pytest.raises(UnsupportedError, match="3 scores"):
        lm.load_encoder(folder, threads=1).rank("a", ["b"])
