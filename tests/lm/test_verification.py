"""A reading of a model is compared with its maker's program, and only what was compared is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.lm.small_decoders import write_folder

from intact import lm
from intact.cli import main
from intact.errors import MissingExtraError, QuantValueError
from intact.lm.language_model import log_probabilities
from intact.lm.verification import verify_model as module
from intact.lm.verification.peer import NotCompared
from intact.lm.verification.transformers_peer import TransformersPeer


class Mirror:
    """A peer that does what a model does, but for what a test changes."""

    name, rounds_activations = "mirror 1", False

    def __init__(self, model):
        self._model = model

    def tokens(self, text):
        return self._model.tokenizer.encode(text)

    def prompt(self, messages):
        return str(self._model.chat_prompt(messages))

    def log_probabilities(self, tokens):
        return log_probabilities(self._model.logits(list(tokens))[-1])

    def greedy(self, tokens, count):
        return list(self._model.generate_tokens(tokens, max_tokens=count))

    def vector(self, text):
        raise NotCompared("no vectors")

    def close(self):
        pass


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return lm.load(write_folder("llama", tmp_path_factory.mktemp("m") / "m"), weights="float32", threads=1)


def checks(model, peer):
    return {check.name: check for check in module._checks(model, peer)}


def test_equal_readings_are_called_equal_and_what_is_missing_is_not_named(model):
    result = checks(model, Mirror(model))
    assert {check.result for check in result.values()} == {"equal"}
    assert set(result) == {"log-probabilities", "24 greedy tokens"}, "no tokenizer, no pooling"


def test_other_probabilities_and_tokens_are_different_with_the_first_one(model):
    class Other(Mirror):
        def log_probabilities(self, tokens):
            return np.roll(super().log_probabilities(tokens), 1)

        def greedy(self, tokens, count):
            greedy = super().greedy(tokens, count)
            return [*greedy[:3], (greedy[3] + 1) % 64, *greedy[4:]]

    result = checks(model, Other(model))
    assert {check.result for check in result.values()} == {"different"}
    assert "token 4 is" in result["24 greedy tokens"].detail


def test_nothing_compared_is_not_equal(model):
    class Mute(Mirror):
        def greedy(self, tokens, count):
            raise NotCompared("it does not open the file")

        def log_probabilities(self, tokens):
            raise NotCompared("it does not open the file")

    verification = module.Verification("mute", tuple(module._checks(model, Mute(model))))
    assert not verification.is_equal
    assert {check.result for check in verification.checks} == {"not compared"}


def test_a_saved_folder_keeps_the_result_and_show_prints_it(model, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lm.save(model, tmp_path / "saved")
    assert lm.describe(tmp_path / "saved").verification == ()
    verification = module.Verification("mirror 1", tuple(module._checks(model, Mirror(model))))
    lm.keep_verification(tmp_path / "saved", lm.verification_record(verification))
    with pytest.raises(SystemExit, match="0"):
        main(["lm", "show", str(tmp_path / "saved")])
    output = capsys.readouterr().out
    assert "compared with mirror 1" in output and "24 greedy tokens" in output
    with pytest.raises(QuantValueError, match="what it was made of"):
        lm.verify(tmp_path / "saved")


@pytest.mark.slow
def test_a_folder_equals_transformers(tmp_path, capsys):
    pytest.importorskip("transformers", reason="it is what folders are compared with")
    pytest.importorskip("torch")
    with pytest.raises(SystemExit, match="0"):
        main(["lm", "verify", str(write_folder("qwen3", tmp_path / "m")), "--json", "--threads", "1"])
    record = json.loads(capsys.readouterr().out)
    assert record["equal"] and record["peer"].startswith("transformers ")
    assert [check["result"] for check in record["checks"]] == ["equal", "equal"]


def test_a_peer_that_is_not_installed_is_an_error_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="transformers"):
        TransformersPeer(tmp_path)
