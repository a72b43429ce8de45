"""Servers of small models, and clients for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.lm.small_decoders import byte_tokenizer, write_folder

JSON_LETTERS = '0123456789{}[]":,.-'
TEMPLATE = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"


def write_text_model(folder: Path) -> Path:
    """Write a decoder of the family "llama" with a tokenizer of letters and a chat template."""
    write_folder("llama", folder)
    byte_tokenizer(more=JSON_LETTERS).save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": 1, "bos_token_id": None}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@contextmanager
def serve(
    model: Any, api_key: str = "", access: dict[str, Any] | None = None, **limits: int
) -> Iterator[Any]:
    """Serve a model on a free port; the server's thread has ended when the block is left."""
    serving = pytest.importorskip("intact.lm.serving")
    pytest.importorskip("uvicorn")
    server = serving.ModelServer(
        model,
        name="small",
        port=0,
        limits=serving.ServerLimits(**limits),
        api_key=api_key,
        **access or {},
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@contextmanager
def open_client(server: Any, api_key: str = "any") -> Iterator[Any]:
    """Return the openai package's client, which never tries again."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=api_key, max_retries=0) as client:
        yield client
