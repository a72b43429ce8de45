"""Tokens that are drafted are those that the model chooses alone."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, byte_tokenizer, write_folder

from intact import lm
from intact.errors import QuantValueError
from intact.lm import speculation
from intact.lm.generate import TokenChoice
from intact.lm.sampling import Sampler

SAMPLINGS = (
    None, lm.Sampling(1.2, top_p=0.9, seed=5), lm.Sampling(0.7, top_k=9, repetition_penalty=1.3, seed=8),
)  # fmt: skip
PROMPTS = ("abcabcabcab", "hello world hello", "z", list(map(int, TOKENS)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = write_folder("llama", tmp_path_factory.mktemp("llama"))
    byte_tokenizer().save(str(path / "tokenizer.json"))
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"eos_token_id": 1, "bos_token_id": None}))
    return path


@pytest.fixture(scope="module")
def model(folder):
    return lm.load(folder, weights="int4", block=16, threads=1)


class CountedRuns:
    """Counts the runs of a model's engine."""

    def __init__(self, engine):
        self.engine, self.count = engine, 0

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def run(self, *arguments, **options):
        self.count += 1
        return self.engine.run(*arguments, **options)


@pytest.mark.parametrize("weights", ["int4", "float32", "int2"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_draft_model_changes_no_token(weights, sampling, folder, model):
    draft = lm.load(folder, weights=weights, block=16, threads=1)
    for prompt in PROMPTS:
        plain = list(model.generate_tokens(prompt, max_tokens=40, sampling=sampling))
        assert list(model.generate_tokens(prompt, max_tokens=40, sampling=sampling, draft=draft)) == plain
        assert list(model.generate_tokens(prompt, max_tokens=40, sampling=sampling, lookup=True)) == plain
        for most in (1, 2, 5):
            few = model.generate_tokens(prompt, max_tokens=most, sampling=sampling, draft=draft)
            assert list(few) == plain[:most]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_draft_that_is_right_saves_runs(sampling, model, monkeypatch):
    monkeypatch.setattr(speculation, "perf_counter", itertools.count().__next__)  # all runs take as long
    runs = CountedRuns(model.engine)
    counted = lm.LanguageModel(runs, model.positions, model.tokenizer)
    tokens = list(counted.generate_tokens("abcab", max_tokens=41, sampling=sampling, draft=model))
    assert runs.count <= 1 + -(-len(tokens) // 5) + 1


def test_a_lookup_prefers_the_longest_match():
    history = [1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3]
    choice = TokenChoice(history, Sampler(lm.Sampling()), 9, frozenset())
    assert speculation.PromptLookup().propose(choice, 2) == [4, 9]
    choice.history[-3] = 7
    assert speculation.PromptLookup().propose(choice, 3) == [5, 7, 2]
    choice.history[-1] = 8
    assert speculation.PromptLookup().propose(choice, 3) == []
    choice.history[:] = [6] * 40
    assert speculation.PromptLookup().propose(choice, 3) == [6] * 3
    choice.history[:] = [4, 1, 2, 1, 2]
    assert speculation.PromptLookup().propose(choice, 5) == [1, 2, 1, 2, 1]


def widths_of(draft, seconds, shares, count=60):
    """Return the widths that are chosen where so many of the tokens are right, and runs take so long."""
    choice, widths, rng = speculation.WidthChoice(draft), [], np.random.default_rng(0)
    for _ in range(count):
        widths.append(width := choice.choose())
        choice.note_run(width, seconds[width])
        guesses = max(width, int(draft.is_free))
        hits = rng.random(guesses) < shares
        choice.note_tokens(guesses, guesses if hits.all() else int(hits.argmin()))
    return widths


def test_as_many_tokens_are_tried_as_pay():
    lookup, seconds = speculation.PromptLookup(), {0: 1.0, 3: 2.0, 7: 3.0, 15: 5.0}
    assert set(widths_of(lookup, seconds, 1.0)[12:]) == {15}
    assert set(widths_of(lookup, seconds, 0.0)[1:]) == {0}
    some = widths_of(lookup, seconds, 0.8, 500)[50:]
    assert np.mean([width in (3, 7) for width in some]) > 0.8
    flat = dict.fromkeys(seconds, 1.0)  # bound by memory
    assert np.mean(widths_of(lookup, flat, 0.8, 500)[50:]) > 12
    draft = widths_of(speculation.DraftModel, {0: 1.0, 3: 3.0, 7: 7.0}, 0.0, 80)
    assert draft == [*([0] * 3), *([3] * 3), *([0] * 16), 3, *([0] * 32), 3, *([0] * 24)]
    dear = widths_of(speculation.DraftModel, {0: 1.0, 3: 9.0, 7: 20.0}, 1.0)
    assert dear == [0, 0, 0, 3, 3, *([0] * 55)]


def test_a_shorter_draft_model_proposes_as_far_as_it_goes(folder, model):
    draft = lm.load(folder, weights="int4", block=16, positions=20, threads=1)
    plain = list(model.generate_tokens("abcabc", max_tokens=60))
    assert list(model.generate_tokens("abcabc", max_tokens=60, draft=draft)) == plain


def test_drafts_follow_a_grammar(folder, model):
    pytest.importorskip("llguidance")
    draft = lm.load(folder, weights="float32", threads=1)
    for sampling in SAMPLINGS:
        options = {"max_tokens": 40, "sampling": sampling}
        plain = model.generate("abc", grammar=model.grammar('start: "ab" ("c" | "de")+ "z"'), **options)
        for how in ({"draft": draft}, {"lookup": True}):
            grammar = model.grammar('start: "ab" ("c" | "de")+ "z"')
            assert model.generate("abc", grammar=grammar, **how, **options) == plain


def test_draft_models_of_other_words_are_refused(folder, model, tmp_path):
    other = write_folder("llama", tmp_path / "other")
    byte_tokenizer("0123").save(str(other / "tokenizer.json"))
    small = write_folder("llama", tmp_path / "small")
    config = json.loads((small / "config.json").read_text())
    from safetensors.numpy import load_file, save_file

    tensors = load_file(small / "model.safetensors")
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        tensors[name] = np.ascontiguousarray(tensors[name][:60])
    save_file(tensors, small / "model.safetensors")
    (small / "config.json").write_text(json.dumps(config | {"vocab_size": 60}))
    for wrong in (other, small):
        draft = lm.load(wrong, weights="int8", block=16, threads=1)
        with pytest.raises(QuantValueError, match="draft"):
            model.generate("abc", max_tokens=9, draft=draft)
    with pytest.raises(QuantValueError, match="draft"):
        model.generate("abc", max_tokens=9, draft=model, lookup=True)
