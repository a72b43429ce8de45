"""Prompts that begin like sequences of a cache run their new tokens alone, and no token changes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lm.server_clients import write_text_model
from tests.lm.small_decoders import TOKENS

from intact import lm
from intact.lm.continuous_batch import ContinuousBatch, SequenceJob

pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_text_model(tmp_path_factory.mktemp("prefixes") / "small")
    return lm.load(folder, weights="int4", block=16, threads=1)


class CountedTokens:
    """Counts the tokens that a model's engine runs."""

    def __init__(self, engine):
        self.engine, self.count = engine, 0

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def run(self, inputs, out=None):
        self.count += inputs["tokens"].size
        return self.engine.run(inputs, out)


def test_a_conversation_goes_on_in_its_cache(model):
    runs = CountedTokens(model.engine)
    counted = lm.LanguageModel(runs, model.positions, model.tokenizer)
    cache, prompt = counted.new_cache(), list(map(int, TOKENS))
    for options in ({}, {"lookup": True}, {"draft": model}, {"chunk": 2}):
        answer = list(model.generate_tokens(prompt, max_tokens=5))
        before = runs.count
        assert list(counted.generate_tokens(prompt, max_tokens=5, cache=cache, **options)) == answer
        assert options != {"chunk": 2} or runs.count - before == 1 + 1 + 4  # the rest of the prompt; answers
        prompt += [*answer, 7]
    assert cache.tokens[0] == prompt[:-2]
    assert list(counted.generate_tokens(prompt[:4], max_tokens=5, cache=cache)) == list(
        model.generate_tokens(prompt[:4], max_tokens=5)
    )


class GreedyJob(SequenceJob):
    """Takes the most likely tokens."""

    def __init__(self, prompt, count):
        super().__init__(prompt)
        self.tokens, self._count = [], count

    def next_token(self, logits):
        self.tokens.append(int(logits.argmax()))
        return self.tokens[-1] if len(self.tokens) < self._count else None


def test_prompts_begin_where_any_sequence_is_like_them(model):
    runs = CountedTokens(model.engine)
    counted = lm.LanguageModel(runs, model.positions, model.tokenizer)
    batch, rng = ContinuousBatch(counted.new_cache, 3, chunk=4), np.random.default_rng(1)
    system, histories = [5, 6, 7, 8, 9, 10, 11, 12], [[], [], []]
    jobs = []
    for turn in range(12):
        history = histories[int(rng.integers(3))]
        prompt = [*system, *history, int(rng.integers(2, 28)), 3]
        job = GreedyJob(prompt, int(rng.integers(1, 6)))
        jobs.append(job)
        batch.add(job)
        if turn % 4 == 3:
            job.is_cancelled = True
        for _ in range(int(rng.integers(0, 7))):
            batch.step()
        history[:] = [*prompt[len(system) :], *job.tokens]
    while batch.step():
        pass
    for job in jobs:
        assert job.error is None
        assert job.tokens == list(model.generate_tokens(job.prompt, max_tokens=5))[: len(job.tokens)]
        assert job.tokens or job.is_cancelled
    batch.release()
    counts = []
    for prompt in ([*system, 20, 21], [*system, 20, 21, 22, 23], [*system, 24], [*system, 25, 26]):
        before = runs.count
        batch.add(GreedyJob(prompt, 1))
        while batch.step():
            pass
        counts.append(runs.count - before)
    assert counts == [10, 2, 1, 2]
