"""The server: tokens of `generate`, whatever runs beside them, and the protocol's errors for bad requests."""

from __future__ import annotations

import json
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.lm.server_clients import open_client, serve, write_text_model

from intact import lm
from intact.errors import IntactError, QuantValueError
from intact.lm.continuous_batch import SequenceJob
from intact.lm.serving.engine_thread import EngineThread

pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_text_model(tmp_path_factory.mktemp("served") / "small")
    return lm.load(folder, weights="int4", block=16, threads=1)


@pytest.fixture(scope="module")
def server(model):
    with serve(model, slots=3, chunk=5, body_bytes=20_000, max_tokens=100) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with open_client(server) as opened:
        yield opened


@pytest.fixture
def http(server):
    httpx = pytest.importorskip("httpx")
    with httpx.Client(base_url=server.url, timeout=600) as opened:
        yield opened


def prompts(count: int) -> list[str]:
    rng = np.random.default_rng(3)
    return ["".join(map(chr, rng.integers(97, 123, rng.integers(1, 40)))) for _ in range(count)]


def test_requests_at_once_get_the_tokens_that_generate_gives(model, client):
    def ask(number: int, prompt: str) -> str:
        settings = {"temperature": [0, 1.3][number % 2], "top_p": 0.9, "seed": number}
        arguments = {"model": "small", "prompt": prompt, "max_tokens": 5 + number % 40} | settings
        if number % 3:
            return client.completions.create(**arguments).choices[0].text
        chunks = list(client.completions.create(stream=True, **arguments))
        return "".join(chunk.choices[0].text for chunk in chunks)

    texts = prompts(24)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(24), texts))
    for number, (prompt, answer) in enumerate(zip(texts, answers, strict=True)):
        sampling = lm.Sampling([0, 1.3][number % 2], top_p=0.9, seed=number)
        assert answer == model.generate(prompt, max_tokens=5 + number % 40, sampling=sampling)


def test_a_prompt_has_several_answers_and_a_request_several_prompts(model, client):
    arguments = {"model": "small", "max_tokens": 9, "temperature": 1.5, "seed": 4, "n": 3}
    response = client.completions.create(prompt=["abcdefgh", [4, 5, 6]], **arguments)
    texts = [choice.text for choice in response.choices]
    assert [choice.index for choice in response.choices] == list(range(6))
    assert len(set(texts)) == 6
    for first, prompt in ((texts[0], "abcdefgh"), (texts[3], [4, 5, 6])):
        assert first == model.generate(prompt, max_tokens=9, sampling=lm.Sampling(1.5, seed=4))
    assert response.usage.prompt_tokens == 8 + 3
    again = client.completions.create(prompt="abcdefgh", **arguments | {"n": 1, "seed": response.seed})
    assert again.choices[0].text == texts[0]


def test_chats_use_the_template_and_stream_as_they_answer(model, client):
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    arguments = {"model": "small", "messages": messages, "max_completion_tokens": 8, "temperature": 0}
    expected = model.chat([{"role": "user", "content": "hi"}], max_tokens=8)
    whole = client.chat.completions.create(logprobs=True, top_logprobs=2, **arguments)
    assert whole.choices[0].message.content == expected
    tokens = whole.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == expected
    assert all(token.logprob == token.top_logprobs[0].logprob for token in tokens)
    chunks = list(
        client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **arguments)
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == expected
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 8


def test_stop_texts_end_answers(model, client):
    text = model.generate("abc", max_tokens=24)
    word = text[5:7]
    arguments = {"model": "small", "prompt": "abc", "max_tokens": 24, "temperature": 0, "stop": [word]}
    choice = client.completions.create(**arguments).choices[0]
    assert (choice.text, choice.finish_reason) == (text[: text.index(word)], "stop")
    chunks = client.completions.create(stream=True, **arguments)
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text


def test_embeddings_are_those_of_embed(model, client):
    texts = ["abc", "abd", "z" * 90]
    response = client.embeddings.create(model="small", input=texts)
    vectors = np.array([record.embedding for record in response.data], np.float32)
    assert vectors.tobytes() == model.embed(texts).tobytes() == model.embed(texts, chunk=7).tobytes()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    floats = client.embeddings.create(model="small", input="abc", encoding_format="float")
    np.testing.assert_array_equal(np.float32(floats.data[0].embedding), vectors[0])


def test_answers_follow_a_json_schema(model, client):
    pytest.importorskip("llguidance")
    schema = {
        "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["a"], "additionalProperties": False,
    }  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "pair", "schema": schema}}
    for seed in range(4):
        response = client.chat.completions.create(
            model="small", messages=[{"role": "user", "content": "x"}], max_tokens=60, seed=seed,
            response_format=form,
        )  # fmt: skip
        choice = response.choices[0]
        prompt, grammar = (
            model.chat_prompt([{"role": "user", "content": "x"}]),
            model.grammar(json_schema=schema),
        )
        sampling = lm.Sampling(1.0, seed=seed)
        expected = model.generate(prompt, max_tokens=60, sampling=sampling, grammar=grammar)
        assert choice.message.content == expected
        if choice.finish_reason == "stop":
            assert 0 <= json.loads(expected)["a"] <= 99


DAMAGED = [
    b"", b"{", b"[]", b"null", b'"text"', b'{"prompt":', b"\xff\xfe", b"[" * 9000, b'{"a":' * 2000,
    b'{"prompt":"a","temperature":NaN}', b'{"prompt":"\\ud800"}',
    b'{"prompt":"a","seed":' + b"9" * 5000 + b"}",
]  # fmt: skip
WRONG = [
    {"prompt": 3}, {"prompt": []}, {"prompt": ""}, {"prompt": [""]}, {"prompt": [[]]}, {"prompt": None},
    {"prompt": [1, "a"]}, {"prompt": [1.5]}, {"prompt": [64]}, {"prompt": [-1]}, {"prompt": [10**30]},
    {"prompt": [True]}, {"prompt": "a" * 200}, {"prompt": ["a"] * 17}, {"max_tokens": 0},
    {"max_tokens": 101}, {"max_tokens": "1"}, {"max_tokens": True}, {"n": 17}, {"n": -1}, {"n": {}},
    {"prompt": ["a"] * 9, "n": 2}, {"temperature": -1}, {"temperature": "hot"}, {"temperature": 1e9},
    {"top_p": 0}, {"top_p": 2}, {"seed": -1}, {"seed": 1.5}, {"stop": [""]}, {"stop": ["a"] * 17},
    {"stop": "a" * 257}, {"stop": [3]}, {"stop": {}}, {"stream": "yes"}, {"stream_options": 3},
    {"stream_options": {"unknown": 1}}, {"logprobs": 21}, {"response_format": "json"},
    {"response_format": {"type": "xml"}}, {"response_format": {"type": "json_schema"}}, {"echo": 1},
    {"best_of": 4},
    {"logit_bias": {"a": 5}}, {"logit_bias": {"1": 101}}, {"logit_bias": {"64": 1}}, {"logit_bias": []},
    {"presence_penalty": 3}, {"frequency_penalty": "x"}, {"suffix": "x"}, {"unknown": 1},
    {"model": 3}, {"top_k": -1}, {"min_p": 1}, {"repetition_penalty": 0},
]  # fmt: skip


@pytest.mark.parametrize("body", DAMAGED)
@pytest.mark.parametrize("path", ["completions", "chat/completions", "embeddings"])
def test_damaged_bodies_are_errors_of_the_protocol(http, path, body):
    response = http.post(f"/v1/{path}", content=body)
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_wrong_fields_are_errors_of_the_protocol(http, change):
    response = http.post("/v1/completions", json={"prompt": "abc"} | change)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    "messages",
    [None, [], "hi", [3], [{}], [{"role": 3}], [{"role": "user", "content": 3}], [{"content": "hi"}],
     [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
     [{"role": "tool", "content": "x", "tool_call_id": 1}], [{"role": "assistant", "tool_calls": [3]}],
     [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
     [{"role": "user", "content": "a" * 500}],
     [{"role": "user", "content": [3]}]],
)  # fmt: skip
def test_wrong_messages_are_errors_of_the_protocol(http, messages):
    assert http.post("/v1/chat/completions", json={"messages": messages}).status_code == 400


def test_schemas_that_are_none_are_errors_of_the_protocol(http):
    pytest.importorskip("llguidance")
    deep = {"type": "array"}
    for _ in range(80):
        deep = {"type": "array", "items": deep}
    for schema in ({"type": "banana"}, {"$ref": "#/nowhere"}, {"pattern": "(((", "type": "string"}, deep):
        form = {"type": "json_schema", "json_schema": {"schema": schema}}
        body = {"prompt": "abc", "response_format": form}
        assert http.post("/v1/completions", json=body).status_code == 400


def test_paths_methods_and_models_that_are_not_there_are_errors_of_the_protocol(http):
    assert http.get("/v1/models/small").json()["id"] == "small"
    assert http.get("/v1/models").json()["data"][0]["id"] == "small"
    for response, status in (
        (http.get("/nowhere"), 404), (http.get("/v1/completions"), 405), (http.get("/v1/models/other"), 404),
        (http.post("/v1/completions", json={"prompt": "a", "model": "other"}), 404),
        (http.post("/v1/completions", content=b"x" * 20_001), 413),
    ):  # fmt: skip
        assert response.status_code == status
        assert response.json()["error"]["type"].endswith("error")


def test_health_and_metrics_say_what_runs(http, client):
    client.completions.create(model="small", prompt="abc", max_tokens=3)
    assert http.get("/health").json() == {"status": "ok"}
    lines = dict(
        line.rsplit(" ", 1) for line in http.get("/metrics").text.splitlines() if not line.startswith("#")
    )
    assert int(lines['intact_requests_total{endpoint="/v1/completions",status="200"}']) >= 1
    assert int(lines["intact_completion_tokens_total"]) >= 3
    assert lines["intact_sequences_running"] == "0"


def test_keys_are_asked_for(model):
    openai = pytest.importorskip("openai")
    with serve(model, api_key="secret") as running:
        with open_client(running, "secret") as opened:
            assert opened.models.list().data[0].id == "small"
        with open_client(running, "wrong") as opened, pytest.raises(openai.AuthenticationError):
            opened.models.list()


class Gate:
    """Lets the engine of a model step only after `open`."""

    def __init__(self, model, monkeypatch):
        self._opened, self.entered = threading.Event(), threading.Event()
        run = model.engine.run

        def wait_and_run(*arguments):
            self.entered.set()
            self._opened.wait()
            return run(*arguments)

        monkeypatch.setattr(model.engine, "run", wait_and_run)

    def open(self):
        """Let it step."""
        self._opened.set()


def send_raw(server, body: bytes) -> socket.socket:
    """Send a request and return its connection."""
    connection = socket.create_connection((server.host, server.port))
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def test_a_full_queue_refuses_and_says_when_to_come_again(model, monkeypatch):
    openai = pytest.importorskip("openai")
    gate = Gate(model, monkeypatch)
    with serve(model, slots=1, waiting=1) as running, open_client(running) as opened:
        try:
            connections = [send_raw(running, b'{"prompt":["abc","abd"],"max_tokens":4}')]
            gate.entered.wait()
            with pytest.raises(openai.RateLimitError) as caught:
                opened.completions.create(model="small", prompt="abc")
            assert caught.value.response.headers["retry-after"] == "1"
        finally:
            gate.open()
        for connection in connections:
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.close()


@pytest.mark.parametrize("is_streamed", [False, True])
def test_clients_that_leave_free_their_slots(model, monkeypatch, is_streamed):
    gate = Gate(model, monkeypatch)
    with serve(model, slots=1) as running, open_client(running) as opened:
        body = json.dumps({"prompt": "abc", "max_tokens": 120, "stream": is_streamed, "temperature": 0})
        with send_raw(running, body.encode()):
            gate.entered.wait()
        jobs = list(running._app.engine._open)
        while not all(job.is_cancelled for job in jobs):  # as soon as the server sees the connection's end
            pass
        gate.open()
        text = opened.completions.create(model="small", prompt="abd", max_tokens=5, temperature=0)
        assert text.choices[0].text == model.generate("abd", max_tokens=5)
        assert max(job.choice.count for job in jobs) <= 2  # of the step that ran


def test_a_server_that_stops_ends_its_streams(model, monkeypatch):
    gate, threads = Gate(model, monkeypatch), set(threading.enumerate())
    httpx = pytest.importorskip("httpx")
    with serve(model, slots=1, grace_seconds=0) as running:
        body = {"prompt": "abc", "max_tokens": 120, "stream": True}
        with httpx.stream("POST", f"{running.url}/v1/completions", json=body, timeout=600) as response:
            gate.entered.wait()
            running.stop()
            engine = running._app.engine
            while engine.is_alive:
                pass
            gate.open()
            lines = [line for line in response.iter_lines() if line.startswith("data")]
    assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "server_stopping"
    assert lines[-1] == "data: [DONE]"
    assert set(threading.enumerate()) <= threads


def test_an_engine_that_fails_ends_the_answer_and_serves_on(model, monkeypatch):
    run = model.engine.run

    def fail(inputs, out=None):
        if inputs["tokens"].shape == (1, 4):
            raise MemoryError("no room")
        return run(inputs, out)

    monkeypatch.setattr(model.engine, "run", fail)
    openai = pytest.importorskip("openai")
    with serve(model) as running, open_client(running) as opened:
        with pytest.raises(openai.InternalServerError, match="no room"):
            opened.completions.create(model="small", prompt="abcd")
        assert opened.completions.create(model="small", prompt="abc", max_tokens=2).usage.total_tokens == 5


def test_a_second_request_runs_its_new_tokens_alone(model, monkeypatch):
    run, counts = model.engine.run, []

    def count(inputs, out=None):
        counts.append(inputs["tokens"].size)
        return run(inputs, out)

    monkeypatch.setattr(model.engine, "run", count)
    with serve(model, chunk=64) as running, open_client(running) as opened:
        prompt = "abcdefgh" * 4
        for _ in range(2):
            arguments = {"model": "small", "prompt": prompt, "max_tokens": 1, "temperature": 0}
            prompt += opened.completions.create(**arguments).choices[0].text + "xyz"
    assert counts == [32, 4]


def test_an_idle_server_frees_its_caches(model):
    released = threading.Event()

    def new_cache(batch):
        weakref.finalize(cache := model.new_cache(batch), released.set)
        return cache

    for seconds in (0, 3600):
        released.clear()
        engine, job = EngineThread(new_cache, 2, 2, 8, seconds), PromptJob([5, 6])
        engine.start()
        engine.submit([job])
        assert job.is_over.wait(600)
        assert released.wait(600 if seconds == 0 else 0) == (seconds == 0)
        engine.stop()
        assert job.error is None


class PromptJob(SequenceJob):
    """Runs a prompt alone; `is_over` is set when it is closed."""

    def __init__(self, prompt):
        super().__init__(prompt)
        self.is_over = threading.Event()

    def on_close(self):
        self.is_over.set()


def test_addresses_that_cannot_be_listened_at_are_errors(model):
    serving = pytest.importorskip("intact.lm.serving")
    for host, port in (("nowhere.invalid", 0), ("127.0.0.1", 10**6)):
        with pytest.raises(QuantValueError, match="address"):
            serving.ModelServer(model, host=host, port=port)
    for wrong in ({"slots": 0}, {"body_bytes": -1}, {"chunk": 2**40}):
        with pytest.raises(IntactError):
            serving.ServerLimits(**wrong)
