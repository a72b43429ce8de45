"""Language models: logits of every family, and tokens that nothing but the model changes."""

from __future__ import annotations

import gc
import json
import mmap
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.lm.small_decoders import (
    TOKENS,
    byte_tokenizer,
    families,
    reference_logits,
    write_folder,
    write_gpt2_gguf,
    write_llama_gguf,
)

from intact import lm
from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.lm import chat_template
from intact.lm.continuous_batch import ContinuousBatch, SequenceJob
from intact.lm.text_stream import TextStream


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = write_folder("llama", tmp_path_factory.mktemp("llama"))
    pytest.importorskip("tokenizers")
    byte_tokenizer().save(str(path / "tokenizer.json"))
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"eos_token_id": 1, "bos_token_id": None}))
    return path


@pytest.fixture(scope="module")
def model(folder):
    return lm.load(folder, weights="int4", block=16, threads=1)


@pytest.mark.parametrize("family", families())
def test_float_logits_are_those_of_transformers(family, tmp_path):
    loaded = lm.load(write_folder(family, tmp_path / family), weights="float32", threads=1)
    np.testing.assert_allclose(loaded.logits(TOKENS), reference_logits(family), atol=1e-4)


def test_a_head_of_its_own_is_no_tied_embedding(tmp_path):
    folder = write_folder("llama", tmp_path / "llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    logits = lm.load(folder, weights="float32", threads=1).logits(TOKENS)
    np.testing.assert_allclose(logits, reference_logits("llama"), atol=1e-4)
    tensors = load_file(folder / "model.safetensors")
    same = tensors["model.embed_tokens.weight"]
    save_file(tensors | {"lm_head.weight": same}, folder / "model.safetensors")
    repeated = lm.load(folder, weights="float32", threads=1).logits(TOKENS)
    del tensors["lm_head.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert repeated.tobytes() == lm.load(folder, weights="float32", threads=1).logits(TOKENS).tobytes()


@pytest.mark.parametrize(("family", "write"), [("llama", write_llama_gguf), ("gpt2", write_gpt2_gguf)])
def test_a_gguf_file_has_the_logits_of_its_folder(family, write, tmp_path):
    loaded = lm.load(write(tmp_path / "small.gguf"), weights="float32", threads=1)
    np.testing.assert_allclose(loaded.logits(TOKENS), reference_logits(family), atol=1e-4)


def test_positions_without_a_vector_are_refused(tmp_path):
    folder = write_folder("gpt2", tmp_path / "gpt2")
    assert lm.load(folder, weights="float32").positions == 128
    with pytest.raises(QuantValueError, match="at most 128"):
        lm.load(folder, weights="float32", positions=129)


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("gpt2", "activation_function", "laplace"),
        ("gpt2", "scale_attn_by_inverse_layer_idx", True),
        ("starcoder2", "hidden_act", "xielu"),
    ],
)
def test_variants_that_are_not_computed_are_refused(family, field, value, tmp_path):
    folder = write_folder(family, tmp_path / family)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(UnsupportedError):
        lm.load(folder)


def test_integer_weights_equal_the_reference_on_every_bit(folder):
    models = [lm.load(folder, weights="int4", block=16, backend=name) for name in ("cpu", "reference")]
    kinds = {step.kind for step in models[0].engine.plan.steps}
    assert {"block_linear", "cached_attention", "rotary"} <= kinds
    assert "onnx" not in kinds
    assert models[0].logits(TOKENS).tobytes() == models[1].logits(TOKENS).tobytes()


def test_chunks_batches_threads_and_room_change_no_bit(folder, model):
    expected = model.logits(TOKENS)
    for threads, chunk in ((1, 1), (2, 7), (5, 24)):
        cache = lm.load(folder, weights="int4", block=16, threads=threads).new_cache(3)
        for sequence in (2, 0, 1):
            rows = [
                cache.append(TOKENS[at : at + chunk], range(len(TOKENS[at : at + chunk])), sequence)
                for at in range(0, len(TOKENS), chunk)
            ]
            assert np.concatenate(rows).tobytes() == expected.tobytes()
        together = cache.append_each([5, 6, 5])
        alone = model.logits([*TOKENS, 5])[-1]
        assert together[0].tobytes() == together[2].tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    "family",
    [
        "cohere2",
        "stablelm",
        "phi3-longrope",
        "opt",
        "nanochat",
        "mixtral",
        "granitemoe",
        "glm4_moe",
        "deepseek_v3",
    ],
)
def test_no_family_depends_on_chunks_batches_or_threads(family, tmp_path):
    folder = write_folder(family, tmp_path / family)
    model = lm.load(folder, weights="int4", block=16, positions=48, threads=1)
    assert "onnx" not in {step.kind for step in model.engine.plan.steps}
    expected = model.logits(TOKENS)
    reference = lm.load(folder, weights="int4", block=16, positions=48, backend="reference")
    assert reference.logits(TOKENS).tobytes() == expected.tobytes()
    cache = lm.load(folder, weights="int4", block=16, positions=48, threads=3).new_cache(3)
    for sequence, chunk in ((2, 1), (0, 7), (1, 24)):
        parts = [TOKENS[at : at + chunk] for at in range(0, len(TOKENS), chunk)]
        rows = [cache.append(part, range(len(part)), sequence) for part in parts]
        assert np.concatenate(rows).tobytes() == expected.tobytes()
    together = cache.append_each([5, 6, 5])
    assert together[0].tobytes() == together[2].tobytes() == model.logits([*TOKENS, 5])[-1].tobytes()


def test_experts_multiply_rows_that_chose_them_alone(tmp_path):
    loaded = lm.load(write_folder("mixtral", tmp_path / "m"), weights="int4", block=16, positions=48)
    kinds = [step.kind for step in loaded.engine.plan.steps]
    assert kinds.count("chosen_block_linear") == 3 * 3, kinds


def test_longer_sequences_than_longrope_was_trained_for_are_refused(tmp_path):
    folder = write_folder("phi3-longrope", tmp_path / "phi3")
    assert lm.load(folder, weights="float32").positions == 64
    with pytest.raises(QuantValueError, match="at most 64"):
        lm.load(folder, weights="float32", positions=65)


def test_truncated_tokens_leave_no_trace(model):
    cache = model.new_cache()
    cache.append(TOKENS)
    cache.truncate(5)
    again = cache.append(TOKENS[5:], range(len(TOKENS) - 5))
    assert again.tobytes() == model.logits(TOKENS)[5:].tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is resident")
def test_a_cache_takes_memory_for_its_tokens_alone(folder):
    loaded = lm.load(folder, weights="int4", block=16, positions=1 << 20, threads=1)
    tokens = np.arange(600) % 50 + 2
    cache = loaded.new_cache(16)
    before = _resident_bytes()
    pieces = [cache.append(tokens[at : at + 100], range(100)) for at in range(0, 600, 100)]
    assert np.concatenate(pieces).tobytes() == loaded.logits(tokens).tobytes()
    assert 600 <= cache.room <= 800
    assert cache.nbytes == 16 * cache.room * cache.token_bytes
    assert _resident_bytes() - before < 0.1 * 16 * loaded.positions * cache.token_bytes


def test_sequences_stay_as_a_cache_grows(folder):
    loaded = lm.load(folder, weights="int4", block=16, positions=700, threads=1)
    tokens = np.arange(700) % 50 + 2
    cache = loaded.new_cache(3)
    cache.append(tokens[:200], sequence=2)
    cache.append(tokens[:50], sequence=0)
    cache.append(tokens, (), sequence=1)
    expected = loaded.logits(tokens[:201])
    assert cache.append([tokens[200]], sequence=2).tobytes() == expected[200].tobytes()
    assert cache.append([tokens[50]], sequence=0).tobytes() == expected[50].tobytes()
    assert cache.room == 700


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * mmap.PAGESIZE


def test_chunks_of_a_prompt_change_no_token(model):
    for prompt in ("abcabcabcab", "hello world hello", "z", list(map(int, TOKENS))):
        plain = list(model.generate_tokens(prompt, max_tokens=40))
        assert list(model.generate_tokens(prompt, max_tokens=40, chunk=3)) == plain


def test_a_saved_model_generates_the_same(model, tmp_path):
    lm.save(model, tmp_path / "saved")
    again = lm.load(tmp_path / "saved", threads=2)
    assert again.generate("abc", max_tokens=20) == model.generate("abc", max_tokens=20)
    assert again.logits(TOKENS).tobytes() == model.logits(TOKENS).tobytes()
    assert again.settings == model.settings


def test_samples_are_drawn_by_their_seed(model):
    draws = [
        list(model.generate_tokens("abc", max_tokens=12, sampling=lm.Sampling(1.5, top_p=0.95, seed=seed)))
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    greedy = list(model.generate_tokens("abc", max_tokens=12))
    narrow = lm.Sampling(1.0, top_k=1)
    assert list(model.generate_tokens("abc", max_tokens=12, sampling=narrow)) == greedy


def test_a_stop_text_ends_the_answer(model):
    text = model.generate("abc", max_tokens=24)
    word = text[4:6]
    assert model.generate("abc", max_tokens=24, stop=[word]) == text[: text.index(word)]
    assert "".join(model.stream("abc", max_tokens=24, stop=["never there"])) == text


def test_scores_are_logarithms_of_probabilities(model):
    logits = model.logits(TOKENS).astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.log(shares[np.arange(len(TOKENS) - 1), TOKENS[1:]])
    np.testing.assert_allclose(model.score(list(map(int, TOKENS))), expected, rtol=1e-10)


def test_a_comparison_with_itself_finds_no_loss(folder, model):
    windows = [TOKENS, TOKENS[::-1].copy()]
    same = lm.compare_models(model, model, windows)
    assert (same.kl, same.same_top, same.perplexity) == (0, 1, same.other_perplexity)
    floats = lm.load(folder, weights="float32", threads=1)
    lost = [
        lm.compare_models(floats, lm.load(folder, weights=weights, block=16, threads=1), windows).kl
        for weights in ("int8", "int4")
    ]
    assert 0 < lost[0] < lost[1]


def test_a_text_chooses_codes_that_lose_less(tmp_path):
    folder = write_folder("qwen3", tmp_path / "qwen3")  # ONNX Runtime's attention wants heads of 16
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    rng = np.random.default_rng(0)
    text = "".join(chr(97 + letter) for letter in rng.integers(0, 26, 640))
    windows = [rng.integers(2, 28, 100) for _ in range(3)]
    floats = lm.load(folder, weights="float32", threads=1)
    near = lm.load(folder, weights="int4", block=16, bits_of={"head": "int8"}, threads=1)
    chosen = lm.load(folder, weights="int4", block=16, text=text, method="gptq", threads=1)
    assert "float_linear" not in {step.kind for step in chosen.engine.plan.steps}
    losses = [lm.compare_models(floats, other, windows).kl for other in (chosen, near)]
    assert losses[0] < 0.8 * losses[1]
    with pytest.raises(QuantValueError, match="tokens"):
        lm.load(folder, weights="int4", block=16, text="short")


def test_what_cannot_run_is_refused(model, folder):
    with pytest.raises(QuantValueError, match="tokens"):
        model.generate("abc", max_tokens=10_000)
    with pytest.raises(QuantValueError, match="none"):
        model.new_cache().append([])
    with pytest.raises(QuantValueError, match="chat template"):
        model.chat([{"role": "user", "content": "hi"}])
    with pytest.raises(IntactError):
        model.logits([64])
    with pytest.raises(QuantValueError, match="weights"):
        lm.load(folder, weights="int99")
    for wrong in ({"temperature": -1.0}, {"top_p": 0.0}, {"temperature": float("nan")}, {"seed": -1}):
        with pytest.raises(QuantValueError):
            lm.Sampling(**wrong)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"model_type": "mamba"}, UnsupportedError), ({"num_attention_heads": 3}, FileFormatError),
        ({"num_hidden_layers": 10**9}, FileFormatError),
        ({"num_hidden_layers": 2**62, "sliding_window": 8}, FileFormatError),
        ({"hidden_size": "x"}, FileFormatError),
        ({"num_hidden_layers": 2}, UnsupportedError), ({"num_hidden_layers": 4}, FileFormatError),
        ({"rope_theta": float("inf")}, FileFormatError), ({"head_dim": -8}, FileFormatError),
        ({"rope_scaling": {"rope_type": "axial"}}, UnsupportedError), ({"vocab_size": 65}, FileFormatError),
        ({"rope_scaling": {"rope_type": "llama3"}}, FileFormatError),
        ({"num_key_value_heads": 0.5}, FileFormatError), ({"rms_norm_eps": "small"}, FileFormatError),
    ],
)  # fmt: skip
def test_configurations_that_do_not_fit_are_errors(change, error, tmp_path):
    folder = write_folder("llama", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(error):
        lm.load(folder, weights="float32")


def test_a_tensor_that_nobody_reads_is_an_error(tmp_path):
    folder = write_folder("llama", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.layers.0.extra.weight": np.ones(3, np.float32)}, folder / "model.safetensors")
    with pytest.raises(UnsupportedError, match="extra"):
        lm.load(folder, weights="float32")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 99}', "\ud800".encode("utf-8", "surrogatepass")]
)
def test_damaged_settings_are_errors(text, model, tmp_path):
    lm.save(model, tmp_path / "saved")
    path = tmp_path / "saved" / "language_model.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileFormatError):
        lm.load(tmp_path / "saved")


def test_templates_run_in_a_sandbox(model):
    render = lm.LanguageModel(model.engine, 10, model.tokenizer, "{{ messages[0].content }}!").chat_prompt
    assert render([{"role": "user", "content": "hi"}]) == "hi!"
    for template in (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{% for i in range(10**9) %}x{% endfor %}", "{{",
        "{{ raise_exception('no') }}", "{{ messages[0].content.missing.more }}", "{{ 1 / 0 }}",
    ):  # fmt: skip
        hostile = lm.LanguageModel(model.engine, 10, model.tokenizer, template)
        with pytest.raises(QuantValueError):
            hostile.chat_prompt([{"role": "user", "content": "hi"}])


def test_prompts_together_get_the_texts_of_each_alone(model):
    prompts = ["abc", "abcdefgh", [3, 4, 5], "abcdef" * 9, "z"]
    for sampling in (None, lm.Sampling(1.2, top_p=0.9, repetition_penalty=1.1, seed=5)):
        alone = [model.generate(prompt, max_tokens=30, sampling=sampling) for prompt in prompts]
        for batch in (1, 2, 8):
            assert model.generate_each(prompts, max_tokens=30, sampling=sampling, batch=batch) == alone
    assert model.generate_each([]) == []
    with pytest.raises(QuantValueError, match="tokens"):
        model.generate_each(["abc", "a" * 200])


def test_sequences_move_between_slots(model):
    cache = model.new_cache(3)
    cache.append(TOKENS[:9], sequence=0)
    cache.append([5, 6], sequence=1)
    cache.copy(0, 2)
    cache.copy(0, 1, 4)
    assert cache.lengths == [9, 4, 9]
    rows = cache.append_each([7, 7])
    assert rows[0].tobytes() == model.logits([*TOKENS[:9], 7])[-1].tobytes()
    assert rows[1].tobytes() == model.logits([*TOKENS[:4], 7])[-1].tobytes()
    assert cache.append([7], sequence=2).tobytes() == rows[:1].tobytes()
    cache.swap(1, 2)
    cache.swap(0, 0)
    assert cache.tokens == [[*TOKENS[:9], 7], [*TOKENS[:9], 7], [*TOKENS[:4], 7]]
    again = cache.append_each([3, 3, 3])
    assert again[0].tobytes() == again[1].tobytes() == model.logits([*TOKENS[:9], 7, 3])[-1].tobytes()
    assert again[2].tobytes() == model.logits([*TOKENS[:4], 7, 3])[-1].tobytes()
    cache.truncate(0, 0)
    cache.swap(0, 1)
    assert cache.lengths == [11, 0, 6]
    for wrong in (lambda: cache.copy(0, 1, 99), lambda: cache.append_each([1] * 4)):
        with pytest.raises(QuantValueError):
            wrong()


def test_vectors_of_texts_have_length_1(model):
    vectors = model.embed(["abc", "abd", "q" * 50])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    last = model.embed(["abc"], pooling="last")
    states = model.new_cache().append_states(model.encode("abc"))
    np.testing.assert_allclose(last[0], states[-1] / np.linalg.norm(states[-1]), rtol=1e-6)
    np.testing.assert_allclose(vectors[0], states.mean(0) / np.linalg.norm(states.mean(0)), rtol=1e-5)
    with pytest.raises(QuantValueError, match="pooling"):
        model.embed(["abc"], pooling="median")
    assert model.embed([]).shape == (0, 0)


def test_hidden_states_are_what_the_head_reads(folder):
    loaded = lm.load(folder, weights="float32", threads=1)
    states = loaded.new_cache().append_states(TOKENS)
    head = load_file(folder / "model.safetensors")["lm_head.weight"]
    np.testing.assert_allclose(states @ head.T, loaded.logits(TOKENS), atol=1e-4)


def test_answers_follow_a_grammar(model):
    pytest.importorskip("llguidance")
    grammar = model.grammar('start: "ab" ("c" | "de")+ "z"')
    for sampling in (None, *(lm.Sampling(1.5, top_p=0.8, seed=seed) for seed in range(5))):
        text = model.generate("abc", max_tokens=99, sampling=sampling, grammar=grammar)
        assert text.startswith("ab") and text.strip("abcde") in ("z", "")
    tokens = list(model.generate_tokens("abc", max_tokens=3, grammar=model.grammar('start: "qz"')))
    assert model.tokenizer.decode(tokens) == "qz"
    for wrong in ({"grammar": "start: ("}, {"json_schema": {"type": "banana"}}, {"json_schema": "[]"}, {}):
        with pytest.raises(QuantValueError):
            model.grammar(**wrong)


def test_pieces_of_a_text_are_the_text():
    tokenizers = pytest.importorskip("tokenizers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    base = tokenizers.Tokenizer(tokenizers.models.BPE({word: i for i, word in enumerate(letters)}, []))
    base.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = lm.Tokenizer(base.to_str(), None, [])
    rng = np.random.default_rng(0)
    numbers = {word: number for number, word in enumerate(letters)}
    words = base.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "ünï — 😀😀 text " * 20
    tokens = [numbers[letter] for letter in words.pre_tokenize_str(text)[0][0]]
    for ids in (tokens, list(rng.integers(0, 256, 400)), tokens[3:]):
        stream = TextStream(tokenizer)
        pieces = [stream.push(int(token)) for token in ids]
        assert "".join(pieces) + stream.finish() == tokenizer.decode(ids)


def test_templates_that_never_end_are_stopped(monkeypatch):
    monkeypatch.setattr(chat_template, "_SECONDS", 0.2)
    messages = [{"role": "user", "content": "hi"}]
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    double = "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    for template in (loop, double, "{{ 'x' * 10**10 }}", "{{ 'x' | center(10**12) }}", "{% include 'x' %}"):
        with pytest.raises(QuantValueError, match="chat template"):
            chat_template.render_chat(template, messages)
    monkeypatch.undo()
    assert chat_template.render_chat("{{ messages[0].content }}", messages) == "hi"


def test_errors_of_jobs_keep_no_memory_of_caches(model, monkeypatch):
    caches = []

    def new_cache(batch):
        caches.append(weakref.ref(cache := model.new_cache(batch)))
        return cache

    def fail(inputs, out=None):
        raise MemoryError("no room")

    gc.disable()
    try:
        batch, jobs = ContinuousBatch(new_cache, 2), [SequenceJob([64]), SequenceJob([3])]
        batch.add(jobs[0])
        assert not batch.step()
        with monkeypatch.context() as patch:
            patch.setattr(model.engine, "run", fail)
            batch.add(jobs[1])
            assert not batch.step()
        batch.release()
        assert caches and [cache() for cache in caches] == [None] * len(caches)
    finally:
        gc.enable()
    assert isinstance(jobs[0].error, IntactError)
    assert "no room" in str(jobs[1].error) and "in fail" in jobs[1].error.__notes__[0]


@pytest.mark.parametrize(("cache", "error"), [("float16", 0.01), ("int8", 0.15)])
def test_narrow_caches_lose_little(folder, cache, error, tmp_path):
    wide = lm.load(folder).logits(TOKENS)
    loaded = lm.load(folder, cache=cache)
    logits = loaded.logits(TOKENS)
    assert 0 < np.abs(logits - wide).max() < error
    lm.save(loaded, tmp_path / "saved")
    assert lm.load(tmp_path / "saved").logits(TOKENS).tobytes() == logits.tobytes()


def test_caches_of_other_types_are_refused(folder):
    with pytest.raises(QuantValueError, match="int4"):
        lm.load(folder, cache="int4")


@pytest.mark.parametrize("cache", ["float16", "int8"])
def test_narrow_caches_change_no_bit_with_chunks_batches_and_machines(folder, cache):
    loaded = lm.load(folder, weights="int4", block=16, cache=cache)
    reference = lm.load(folder, weights="int4", block=16, cache=cache, backend="reference")
    expected = loaded.logits(TOKENS)
    assert expected.tobytes() == reference.logits(TOKENS).tobytes()
    sequences = loaded.new_cache(2)
    for sequence, chunk in ((1, 1), (0, 3)):
        rows = [
            sequences.append(TOKENS[at : at + chunk], range(len(TOKENS[at : at + chunk])), sequence)
            for at in range(0, len(TOKENS), chunk)
        ]
        assert np.concatenate(rows).tobytes() == expected.tobytes()
