"""The page at / on which people try a model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess

import pytest
from tests.lm.server_clients import serve, write_text_model

from intact import lm

pytest.importorskip("intact.lm.serving")
pytest.importorskip("tokenizers")
httpx = pytest.importorskip("httpx")

DOCUMENT = """
const elements = {};
function element() {
  const handlers = {};
  return {
    value: "", disabled: false, textContent: "", className: "", children: [],
    addEventListener: (name, act) => { handlers[name] = act; }, handlers,
    append(child) { this.children.push(child); }, replaceChildren() { this.children = []; },
  };
}
globalThis.document = {
  title: "", createElement: element, getElementById: (name) => (elements[name] ??= element()),
};
const home = process.argv[2], ask = globalThis.fetch;
globalThis.fetch = (path, options) => ask(home + "/" + path, options);
"""
ACT = """
(async () => {
  Object.assign(elements.text, { value: "hi" });
  Object.assign(document.getElementById("temperature"), { value: "0" });
  Object.assign(document.getElementById("tokens"), { value: "8" });
  Object.assign(document.getElementById("key"), { value: "key" });
  await elements.form.handlers.submit({ preventDefault() {} });
  const shown = elements.turns.children.map((turn) => [turn.className, turn.textContent]);
  console.log(JSON.stringify([shown, elements.figures.textContent]));
})();
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return lm.load(write_text_model(tmp_path_factory.mktemp("page") / "small"), block=16, threads=1)


@pytest.fixture(scope="module")
def server(model):
    with serve(model, api_key="key") as running:
        yield running


def script_of(page: str) -> str:
    return re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0]


def test_the_page_needs_no_key_and_runs_its_own_script_alone(server):
    response = httpx.get(server.url)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    digest = base64.b64encode(hashlib.sha256(script_of(response.text).encode()).digest()).decode()
    policy = response.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert not re.search(r"(src|href)=|innerHTML|https?:", response.text)
    assert httpx.get(f"{server.url}/v1/models").status_code == 401


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_its_script_shows_the_answer_of_the_chat(model, server, tmp_path):
    program = tmp_path / "page.js"
    program.write_text(DOCUMENT + script_of(httpx.get(server.url).text) + ACT)
    run = subprocess.run(
        ["node", str(program), server.url], capture_output=True, text=True, timeout=600, check=True
    )
    expected = model.chat([{"role": "user", "content": "hi"}], max_tokens=8)
    shown, figures = json.loads(run.stdout)
    assert shown == [["turn user", "hi"], ["turn assistant", expected]]
    assert figures.startswith("8 tokens, ")
