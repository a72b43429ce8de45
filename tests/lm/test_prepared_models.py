"""A language model opens at once the next time, and only as the same model."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, byte_tokenizer, write_llama_gguf, write_quantized_gguf
from tests.lm.small_decoders import write_folder as write_weights

from intact import lm
from intact.errors import QuantValueError, SecondRoundingWarning
from intact.lm.decoders import decoder_weights
from intact.lm.prepared_models import BOUND, VARIABLE, PreparedModel


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_folder(family, folder):
    """Write a folder with a tokenizer."""
    pytest.importorskip("tokenizers")
    path = write_weights(family, folder)
    byte_tokenizer().save(str(path / "tokenizer.json"))
    return path


@pytest.fixture
def unread(monkeypatch):
    """Let nobody read weights from now on."""

    def start() -> None:
        monkeypatch.setattr(decoder_weights, "open_weights", lambda *_: pytest.fail("weights are read"))

    return start


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "int4", "block": 16},
        {"cache": "int8", "rotate": True, "weights": "int8"},
        {"weights": "keep"},
    ],
)
def test_the_second_start_is_the_same_model(options, tmp_path, cache, unread):
    folder = write_folder("llama", tmp_path / "llama")
    first = lm.load(folder, threads=1, positions=40, **options)
    unread()
    second = lm.load(folder, threads=2, positions=40, **options)
    assert second.logits(TOKENS).tobytes() == first.logits(TOKENS).tobytes()
    assert (second.positions, dict(second.settings)) == (40, dict(first.settings))
    assert second.description.special_tokens.ends == first.description.special_tokens.ends
    assert second.generate("a b", max_tokens=8) == first.generate("a b", max_tokens=8)
    tokens = [
        (model.tokenizer.bos, model.tokenizer.eos, model.tokenizer.encode("a b")) for model in (first, second)
    ]
    assert tokens[0] == tokens[1]
    assert second.description.pooling == first.description.pooling
    assert second.chat_templates == first.chat_templates
    assert lm.weight_bits(second) == lm.weight_bits(first)


def test_codes_of_a_gguf_file_are_kept_and_other_codes_are_not(tmp_path, cache, unread):
    path = write_llama_gguf(tmp_path / "small.gguf")
    first = lm.load(path, threads=1).logits(TOKENS)
    with_floats = lm.load(path, weights="float32", threads=1).logits(TOKENS)
    assert len(list(cache.iterdir())) == 1
    unread()
    assert lm.load(path, threads=1).logits(TOKENS).tobytes() == first.tobytes()
    np.testing.assert_allclose(first, with_floats, atol=1e-4)


def test_another_file_option_or_neighbour_is_another_model(tmp_path, cache):
    folder = write_folder("llama", tmp_path / "llama")
    lm.load(folder, weights="int4", threads=1)
    lm.load(folder, weights="int4", block=16, threads=1)
    assert len(list(cache.iterdir())) == 2
    weights = folder / "model.safetensors"
    state, data = weights.stat(), bytearray(weights.read_bytes())
    data[-4] ^= 64
    weights.write_bytes(data)
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))  # as tools do that keep times
    changed = lm.load(folder, weights="int4", threads=1)
    assert len(list(cache.iterdir())) == 3
    (folder / "generation_config.json").write_text('{"eos_token_id": 7}')
    assert 7 in lm.load(folder, weights="int4", threads=1).description.special_tokens.ends
    assert 7 not in changed.description.special_tokens.ends


@pytest.mark.parametrize("name", ["model.plan", "language_model.json"])
def test_what_is_damaged_is_made_again(name, tmp_path, cache):
    folder = write_folder("llama", tmp_path / "llama")
    first = lm.load(folder, weights="int4", threads=1).logits(TOKENS)
    (entry,) = cache.iterdir()
    (entry / name).write_bytes((entry / name).read_bytes()[:100])
    assert lm.load(folder, weights="int4", threads=1).logits(TOKENS).tobytes() == first.tobytes()
    assert lm.load(folder, weights="int4", threads=1).logits(TOKENS).tobytes() == first.tobytes()
    assert (entry / name).stat().st_size > 100


def test_the_folder_has_a_bound(tmp_path, cache, monkeypatch):
    folder = write_folder("llama", tmp_path / "llama")
    for block in (8, 16):
        lm.load(folder, weights="int4", block=block, threads=1)
    sizes = [sum(file.stat().st_size for file in entry.iterdir()) for entry in cache.iterdir()]
    monkeypatch.setenv(BOUND, str(2 * max(sizes) + 1000))
    for entry in cache.iterdir():
        os.utime(entry / "language_model.json", (1, 1))
    lm.load(folder, weights="int4", block=8, threads=1)  # used now
    lm.load(folder, weights="int4", block=32, threads=1)
    names = {entry.name for entry in cache.iterdir()}
    assert len(names) == 2
    lm.load(folder, weights="int4", block=8, threads=1)
    assert {entry.name for entry in cache.iterdir()} == names, "the one that was used long ago has gone"
    monkeypatch.setenv(BOUND, "1000")
    lm.load(folder, weights="int8", threads=1)
    assert {entry.name for entry in cache.iterdir()} == names, "a model is larger than half of the bound"
    monkeypatch.setenv(BOUND, "much")
    with pytest.raises(QuantValueError, match=BOUND):
        lm.load(folder, weights="int4", threads=1)


def test_several_processes_may_keep_one_model(tmp_path, cache):
    folder = write_folder("llama", tmp_path / "llama")
    model = lm.load(folder, weights="int4", threads=1)
    (entry,) = cache.iterdir()
    PreparedModel(entry, 1 << 30).keep(model)
    assert list(cache.iterdir()) == [entry]


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    folder = write_folder("llama", tmp_path / "llama")
    first = lm.load(folder, weights="int4", threads=1).logits(TOKENS)
    monkeypatch.setenv(VARIABLE, "off")
    assert lm.load(folder, weights="int4", threads=1).logits(TOKENS).tobytes() == first.tobytes()
    assert (tmp_path / "file").read_text() == ""


def test_a_second_rounding_warns_each_time(tmp_path, cache):
    path = write_quantized_gguf(tmp_path / "small.gguf", "Q4_1")
    for _ in range(2):
        with pytest.warns(SecondRoundingWarning):
            lm.load(path, weights="int4", threads=1)
