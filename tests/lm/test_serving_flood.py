"""A server under clients that misbehave: nothing but the protocol's answers, and nothing is left over."""

from __future__ import annotations

import threading

import pytest
from tests.lm.server_clients import open_client, serve, write_text_model

from intact import lm

pytest.importorskip("tokenizers")
pytest.importorskip("llguidance")
pytest.importorskip("httpx")
ANSWERS = {0, 200, 400, 408, 413, 429}


@pytest.mark.slow
def test_64_clients_that_misbehave_leave_nothing(tmp_path, capfd):
    from tests.lm.flood import flood

    model = lm.load(write_text_model(tmp_path / "small"), weights="int4", block=16, threads=1)
    threads = set(threading.enumerate())
    with serve(model, slots=4, waiting=8) as server:
        statuses = flood(server, clients=64, rounds=6)
        assert {status for _, status in statuses} <= ANSWERS
        assert statuses["_complete", 200] and statuses["_stream", 200]
        with open_client(server) as client:
            arguments = {"model": "small", "prompt": "abc", "max_tokens": 9, "temperature": 0}
            answer = client.completions.create(**arguments).choices[0].text
        assert answer == model.generate("abc", max_tokens=9)
    assert set(threading.enumerate()) <= threads
    assert "Traceback" not in capfd.readouterr().err
