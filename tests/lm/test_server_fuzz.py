"""A sample of what `tests/lm/server_fuzz.py` sends by the hundred thousand."""

from __future__ import annotations

import pytest
from tests.lm.server_clients import write_text_model

from intact import lm

pytest.importorskip("tokenizers")
pytest.importorskip("llguidance")
pytest.importorskip("starlette")


def test_mutated_answers_are_strict_json():
    from tests.lm.server_fuzz import fuzz_answers

    assert fuzz_answers(800, seed=1)


def test_mutated_requests_are_answered_in_strict_json(tmp_path, capfd):
    from tests.lm.server_fuzz import TEMPLATE, fuzz_requests

    folder = write_text_model(tmp_path / "small")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    model = lm.load(folder, weights="int4", block=16, threads=1)
    statuses = fuzz_requests(model, 500, seed=1)
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"):
        assert statuses[path, 200] and statuses[path, 400]
    assert "Traceback" not in capfd.readouterr().err
