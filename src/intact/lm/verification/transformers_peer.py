"""The package transformers as a peer, for Hugging Face folders."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import MissingExtraError
from intact.lm.verification.peer import NotCompared


class TransformersPeer:
    """Runs a folder by transformers, in float32. No code of the folder is run, and nothing is downloaded.

    Args:
        folder: With config.json and safetensors files.
    Raises:
        MissingExtraError: transformers is not installed.
    """

    rounds_activations = False

    def __init__(self, folder: Path) -> None:
        try:
            self._package = importlib.import_module("transformers")
        except ImportError as error:
            raise MissingExtraError.of("transformers", "dev", "a comparison with it") from error
        self.name = f"transformers {self._package.__version__}"
        self._folder, self._options = str(folder), {"local_files_only": True, "trust_remote_code": False}
        self._model: Any = None
        self._tokenizer: Any = None

    def tokens(self, text: str) -> list[int]:
        return list(map(int, self._words()(text)["input_ids"]))

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        try:
            text = self._words().apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # of any class: templates raise what they like
            raise NotCompared(f"transformers renders none: {str(error)[:80]}") from error
        return str(text)

    def log_probabilities(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        rows = self._network()(self._tensor(tokens)).logits[0, -1]
        logits = rows.detach().double().numpy()
        logits = logits - logits.max()
        return np.asarray(logits - np.log(np.exp(logits).sum()))

    def greedy(self, tokens: Sequence[int], count: int) -> list[int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = self._network().generate(
                self._tensor(tokens), attention_mask=self._tensor([1] * len(tokens)), max_new_tokens=count,
                do_sample=False, num_beams=1,
            )  # fmt: skip
        return list(map(int, rows[0, len(tokens) :]))

    def vector(self, text: str) -> NDArray[np.float64]:
        try:
            package = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise NotCompared("sentence-transformers is not installed") from error
        if self._model is None:
            self._model = package.SentenceTransformer(self._folder, **self._options, device="cpu").float()
        return np.asarray(self._model.encode([text])[0], np.float64)

    def close(self) -> None:
        self._model = self._tokenizer = None

    def _tensor(self, tokens: Sequence[int]) -> Any:
        """Return a batch of one sequence in the form of transformers' own backend."""
        return self._package.BatchEncoding({"input_ids": [list(tokens)]}, tensor_type="pt")["input_ids"]

    def _words(self) -> Any:
        if self._tokenizer is None:
            try:
                self._tokenizer = self._package.AutoTokenizer.from_pretrained(self._folder, **self._options)
            except Exception as error:  # of any class
                raise NotCompared(f"transformers finds no tokenizer: {str(error)[:80]}") from error
        return self._tokenizer

    def _network(self) -> Any:
        if self._model is None:
            try:
                loaded = self._package.AutoModelForCausalLM.from_pretrained(
                    self._folder, **self._options, dtype="float32", attn_implementation="eager",
                    use_safetensors=True,
                )  # fmt: skip
            except Exception as error:  # of any class
                raise NotCompared(f"transformers does not open it: {str(error)[:80]}") from error
            self._model = loaded.eval()
        return self._model
