"""llama.cpp's server as a peer, for GGUF files."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import MissingExtraError
from intact.lm.verification.peer import NotCompared

_SECONDS = 600
_SERVER = """
import sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel = sys.argv[1], int(sys.argv[2]), 1
settings.n_gpu_layers, settings.warmup, settings.port = 0, False, 0
settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
if sys.argv[3] == "vectors":
    settings.embedding = True
server = xllamacpp.Server(settings)
print("listening at", server.listening_address, flush=True)
sys.stdin.read()
"""
"""Ends with its standard input. It is a process of its own, because hostile files abort it."""


class LlamaServerPeer:
    """Runs a GGUF file by llama.cpp, from the package xllamacpp, at a port of the loopback.

    Args:
        file: The GGUF file.
        vocabulary: Tokens that probabilities are for.
        positions: The longest sequence.
    Raises:
        MissingExtraError: xllamacpp is not installed.
    """

    rounds_activations = True

    def __init__(self, file: Path, vocabulary: int, positions: int) -> None:
        try:
            self.name = f"llama.cpp (xllamacpp {metadata.version('xllamacpp')})"
        except metadata.PackageNotFoundError as error:
            raise MissingExtraError.of("xllamacpp", "dev", "a comparison with llama.cpp") from error
        self._file, self._vocabulary, self._positions = file, vocabulary, positions
        self._servers: dict[str, tuple[subprocess.Popen[str], str]] = {}

    def tokens(self, text: str) -> list[int]:
        request = {"content": text, "add_special": True, "parse_special": True}
        return list(map(int, self._ask("/tokenize", request)["tokens"]))

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        return str(self._ask("/apply-template", {"messages": list(messages)})["prompt"])

    def log_probabilities(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        answer = self._complete(tokens, 1, n_probs=self._vocabulary)
        values = np.full(self._vocabulary, -np.inf)
        for entry in answer["completion_probabilities"][0]["top_logprobs"]:
            values[entry["id"]] = entry["logprob"]
        return values

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        answer = self._complete(tokens, count, n_probs=1)
        return [int(entry["id"]) for entry in answer["completion_probabilities"]]

    def vector(self, text: str) -> NDArray[np.float64]:
        answer = self._ask("/embedding", {"content": text}, kind="vectors")
        return np.asarray(answer[0]["embedding"][0], np.float64)

    def close(self) -> None:
        for process, _ in self._servers.values():
            process.kill()
            process.wait()
        self._servers.clear()

    def _complete(self, tokens: Sequence[int], count: int, **options: Any) -> Any:
        request = {
            "prompt": list(tokens), "n_predict": count, "temperature": 0.0, "cache_prompt": False,
            "samplers": ["top_k"], "top_k": 1, **options,
        }  # fmt: skip
        return self._ask("/completion", request)

    def _ask(self, path: str, body: Mapping[str, Any], kind: str = "texts") -> Any:
        request = urllib.request.Request(
            self._address(kind) + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                return json.loads(reply.read())
        except (OSError, ValueError) as error:
            detail = (
                error.read().decode("utf-8", "replace") if isinstance(error, urllib.error.HTTPError) else ""
            )
            raise NotCompared(f"llama.cpp: {error} {detail}"[:160]) from error

    def _address(self, kind: str) -> str:
        if kind not in self._servers:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(self._file), str(self._positions), kind], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("listening at "):
                    self._servers[kind] = process, line.split()[-1]
                    break
            else:
                process.wait()
                raise NotCompared("llama.cpp does not open the file")
        return self._servers[kind][1]
