"""Whatever a model says, its client gets strict JSON: text, or calls that every client can read."""

from __future__ import annotations

import json
import threading

import pytest
from tests.lm.scripted_model import model_of_answers
from tests.lm.server_clients import serve, write_text_model

from intact import lm
from intact.lm.continuous_batch import ContinuousBatch, SequenceJob
from intact.lm.sampling import Sampling
from intact.lm.sequence_jobs import TextJob
from intact.lm.serving.engine_thread import EngineThread
from intact.lm.serving.strict_json import encode_strict, parse_strict
from intact.lm.serving.tool_calls import ToolCallStream

httpx = pytest.importorskip("httpx")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def call(arguments: str) -> str:
    return f'{{"name": "f", "arguments": {arguments}}}'


DEEP = '{"x": ' * 300 + "1" + "}" * 300
TEXTS = [
    '{"name": ["Ann", "Lee"]}', '{"name": {"first": "Ann"}, "age": 3}', '{"name": 3}', '{"name": null}',
    '{"name": ""}', '{"name": true, "arguments": {}}', '{"arguments": {}}', '[{"name": ["f"]}]', "[[]]", "[]",
    call('{"x": NaN}'), call('{"x": -Infinity}'), call('{"x": 1e999}'), call('{"x": ' + "9" * 400 + "}"),
    call('{"x": ' + "9" * 5000 + "}"), call('{"x": "\\ud83d"}'), call('{"\\udc00": 1}'), call(DEEP),
    call('{"x": 1, "x": 2}'), '{"name": "f", "name": "f"}', call('"[1]"'), call('"{\\"x\\": NaN}"'),
    call('"\\"{}\\""'), '{"name": "f", "arguments": {}, "parameters": {}}', call("[1]"), call("3"), "NaN",
    call('{"x": 1}') + "}", call('{"x": "\n"}'), '"f"', "{" * 500, '{"a":' * 500,
]  # fmt: skip
CALLS = [
    (call('{"x": 1}'), '{"x": 1}'), (call("null"), "{}"), (call('""'), "{}"), ('{"name": "f"}', "{}"),
    (call('"{\\"x\\": 1}"'), '{"x": 1}'), (call('{"x": "\\ud83d\\ude00"}'), '{"x": "\U0001f600"}'),
    (call('{"x": "</tool_call>"}'), '{"x": "</tool_call>"}'), (call('{"x": "\\u0000"}'), '{"x": "\\u0000"}'),
    (call('{"x": "a\\"</tool_call>"}'), '{"x": "a\\"</tool_call>"}'), (call('{"": 1e300}'), '{"": 1e+300}'),
]  # fmt: skip


def split(answer: str, size: int = 5, **options) -> tuple[str, list[str]]:
    stream = ToolCallStream(["f"], **options)
    parts = [stream.push(answer[at : at + size]) for at in range(0, len(answer), size)] + [stream.finish()]
    return "".join(text for text, _ in parts), [call.arguments for _, calls in parts for call in calls]


@pytest.mark.parametrize("answer", TEXTS, ids=[text[:40] for text in TEXTS])
def test_what_is_no_call_is_text(answer):
    for whole in (answer, f"<tool_call>{answer}</tool_call>", f"<tool_call>{answer}</tool_call> behind"):
        assert split(whole) == (whole, [])


@pytest.mark.parametrize(("answer", "arguments"), CALLS)
def test_calls_have_arguments_of_strict_json(answer, arguments):
    for whole, text in (
        (answer, ""), (f"<tool_call>{answer}</tool_call>", ""),
        (f"a <tool_call>{answer}</tool_call>\n", "a "),
        (f"<tool_call>{answer}</tool_call> behind", "behind"), (f"<tool_call>{answer}", ""),
    ):  # fmt: skip
        assert split(whole) == (text, [arguments])
        assert json.loads(arguments, parse_constant=pytest.fail) is not None


def test_a_string_that_never_closes_does_not_hide_the_call_behind_it():
    assert split(f'<tool_call>{{"</tool_call><tool_call>{call("{}")}</tool_call>') == (
        '<tool_call>{"</tool_call>', ["{}"],
    )  # fmt: skip


def test_one_call_at_most_drops_what_follows_the_first():
    two = f"a<tool_call>{call('{}')}</tool_call><tool_call>{call('null')}</tool_call> b"
    assert split(two) == ("ab", ["{}", "{}"])
    assert split(two, most=1) == ("a", ["{}"])
    assert split(f"[{call('{}')}, {call('{}')}]", most=1) == ("", ["{}"])


@pytest.mark.parametrize("text", ["[NaN]", "1e999", '"\\ud800"', "9" * 400, '{"a":1,"a":1}', "[" * 200, ""])
def test_strict_json_refuses_what_clients_read_differently(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_strict(text)


def test_nothing_but_strict_json_is_written():
    assert encode_strict({"a": "\U0001f600"}) == b'{"a":"\\ud83d\\ude00"}'
    with pytest.raises(ValueError, match="JSON"):
        encode_strict(float("nan"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    answers = {f"t{number}": text for number, text in enumerate(TEXTS[:20])}
    answers |= {f"c{number}": answer for number, (answer, _) in enumerate(CALLS)}
    with serve(model_of_answers(tmp_path_factory.mktemp("scripted"), answers)) as running:
        yield running


def ask(server, key: str, **options) -> dict:
    body = {
        "messages": [{"role": "user", "content": key}], "tools": [TOOL], "temperature": 0, "max_tokens": 20,
    }  # fmt: skip
    response = httpx.post(f"{server.url}/v1/chat/completions", json=body | options, timeout=600)
    assert response.status_code == 200
    return parse_strict(response.content)["choices"][0]


def test_clients_get_text_or_calls_and_always_an_answer(server):
    for number, text in enumerate(TEXTS[:20]):
        choice = ask(server, f"t{number}")
        assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
        assert "tool_calls" not in choice["message"]
    for number, (_, arguments) in enumerate(CALLS):
        choice = ask(server, f"c{number}")
        assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": arguments}
        assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("method", ["push", "finish"])
def test_an_error_of_a_job_reaches_its_client_and_no_other(server, monkeypatch, method, is_streamed):
    original = getattr(ToolCallStream, method)

    def fail(self, *arguments):
        if "bad" in self._names:
            raise RuntimeError("a fault in the parser")
        return original(self, *arguments)

    monkeypatch.setattr(ToolCallStream, method, fail)
    body = {
        "messages": [{"role": "user", "content": "c0"}], "temperature": 0, "max_tokens": 20,
        "stream": is_streamed,
        "tools": [{"type": "function", "function": {"name": "bad"}}],
    }  # fmt: skip
    bad = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=600)
    assert "a fault in the parser" in bad.text and "engine_failed" in bad.text
    assert bad.status_code == (200 if is_streamed else 500)
    assert not is_streamed or bad.text.endswith("data: [DONE]\n\n")
    assert ask(server, "c0")["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("fails_in", ["prompt", "answer"])
def test_an_error_of_the_engine_ends_the_sequence_that_caused_it_alone(tmp_path, monkeypatch, fails_in):
    model = lm.load(write_text_model(tmp_path / "small"), weights="int4", block=16, threads=1)
    prompts, bad, run = ["abc", "q", "abd", "xyz"], model.encode("q")[0], model.engine.run
    expected = [model.generate(prompt, max_tokens=12) for prompt in prompts]
    bias = {bad: 100.0} if fails_in == "answer" else {}
    jobs = []
    for number, prompt in enumerate(prompts):
        ids = model.encode("m" if prompt == "q" and bias else prompt)
        how = Sampling(logit_bias=bias if number == 1 else {bad: -100.0})
        jobs.append(TextJob(ids, model.token_choice(ids, 12, how), model.tokenizer))

    def fail(inputs, out=None):
        if bad in inputs["tokens"]:
            raise MemoryError("no room for this one")
        return run(inputs, out)

    monkeypatch.setattr(model.engine, "run", fail)
    batch = ContinuousBatch(model.new_cache, 3, 2)
    for job in jobs:
        batch.add(job)
    while batch.step():
        pass
    assert [type(job.error) for job in jobs] == [type(None), MemoryError, type(None), type(None)]
    for number in (0, 2, 3):
        if "q" not in expected[number]:
            assert "".join(jobs[number].pieces) == expected[number]


def test_a_cache_that_cannot_be_made_ends_its_job():
    def new_cache(count):
        raise MemoryError("no room")

    job, batch = Job(), ContinuousBatch(new_cache, 1)
    batch.add(job)
    assert not batch.step()
    assert job.is_closed and job.is_over.is_set()


class Job(SequenceJob):
    """Fails when it is closed, once."""

    def __init__(self):
        super().__init__([1])
        self.errors, self.is_over = [], threading.Event()

    def on_close(self):
        self.errors.append(self.error)
        if len(self.errors) == 1:
            raise ValueError("damaged")
        self.is_over.set()


def test_a_job_that_fails_when_it_is_closed_hears_of_it():
    job = Job()
    batch = ContinuousBatch(lambda count: None, 1)
    batch.add(job)
    job.is_cancelled = True
    batch.step()
    assert job.errors[0] is None and isinstance(job.errors[1], ValueError) and job.error is job.errors[1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_by_a_fault_closes_all_jobs(monkeypatch):
    engine, jobs = EngineThread(lambda count: None, 1, 9, 8, 60), [Job(), Job()]
    monkeypatch.setattr(ContinuousBatch, "step", lambda self: 1 / 0)
    engine.submit(jobs)
    engine.start()
    for job in jobs:
        assert job.is_over.wait(60)
    assert not engine.is_alive
    engine.stop()
