"""`TextEncoder`: vectors of texts, or scores of texts for a query, by a BERT-like ONNX file."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine
from intact.engine import compile as compile_model
from intact.errors import QuantValueError, UnsupportedError
from intact.lm.description.encoder_description import EncoderDescription, describe_encoder
from intact.lm.description.model_description import POOLINGS, Pooling
from intact.lm.encoders.encoder_files import SCORES, TOKENIZER, VECTOR, check_ports, find_files
from intact.lm.sequence_jobs import EmbeddingJob
from intact.lm.tokenizer import Tokenizer, tokenizer_of_file

Reals = NDArray[np.float32]
Text = str | Sequence[int]


class TextEncoder:
    """Runs an encoder on one text at a time, so that a vector does not depend on what else is asked for.

    Args:
        engine: Of the ONNX file.
        tokenizer: Of its folder.
        description: What the folder's files say.

    Attributes:
        engine, tokenizer, description: As given.
        output: Name of the output that is read.
    Raises:
        UnsupportedError: An input or output has no meaning here.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, description: EncoderDescription) -> None:
        self.engine, self.tokenizer, self.description = engine, tokenizer, description
        self.output = check_ports(engine.inputs, engine.outputs)
        self._dtypes = {port.name: port.dtype for port in engine.inputs}
        self._lock = threading.Lock()

    @property
    def is_reranker(self) -> bool:
        """True where the model scores pairs of texts; else it gives vectors."""
        return self.output == SCORES

    @property
    def size(self) -> int | None:
        """Elements of a vector; None where the file leaves it open."""
        shape = next(port.shape for port in self.engine.outputs if port.name == self.output)
        return shape[-1] if isinstance(shape[-1], int) else None

    @property
    def positions(self) -> int:
        """Tokens of a text at most; 0 where no file says it."""
        return self.description.pooling.longest

    def embed(
        self, texts: Sequence[Text], *, pooling: str | None = None, prompt: str | None = None,
        truncate: bool = False,
    ) -> Reals:  # fmt: skip
        """Return a vector for each text, float32 [texts, size].

        Args:
            texts: Texts, or tokens with the special ones.
            pooling: Of the hidden states, one of `POOLINGS`; vectors have the length 1 then. None: as the
                files say it.
            prompt: Name of a text of the files that is put in front, such as "query"; None: the one that they
                take by default, if any.
            truncate: Cut texts that are too long, as sentence-transformers does.
        Raises:
            QuantValueError: A text is empty or too long, no prompt has the name, or no file says how to pool.
            UnsupportedError: The model is a reranker.
        """
        vectors = [self.vector(ids, pooling) for ids in (self.tokens(t, prompt, truncate) for t in texts)]
        return np.stack(vectors) if vectors else np.empty((0, 0), np.float32)

    def vector(self, ids: Sequence[int], pooling: str | None = None) -> Reals:
        """Return the vector of a text's tokens, float32 [size]; errors as for `embed`.

        Args:
            ids: As `tokens` gives them.
            pooling: As for `embed`.
        """
        if self.is_reranker:
            raise UnsupportedError(
                "embed",
                "a reranker, which scores pairs",
                "a model with hidden states",
                "use rank(query, texts)",
            )
        how = self.description.pooling if pooling is None else Pooling(pooling)
        if how.kind not in POOLINGS:
            raise QuantValueError("pooling", repr(how.kind), " or ".join(POOLINGS), "choose one of them")
        if self.output == VECTOR:
            if pooling is not None:
                raise QuantValueError("pooling", pooling, "none: the graph pools", "leave it out")
            vector = self._run(ids, [0] * len(ids))[0].astype(np.float64)
            is_normalized = self.description.has_pooling and how.is_normalized
            return np.asarray(vector / np.linalg.norm(vector) if is_normalized else vector, np.float32)
        if pooling is None and not self.description.has_pooling:
            raise QuantValueError(
                "pooling", "no modules.json that says how", f"one of {', '.join(POOLINGS)}",
                "give it: --pooling mean, or pooling='mean' in Python",
            )  # fmt: skip
        job = EmbeddingJob(ids, how)
        job.read_states(self._run(ids, [0] * len(ids))[0])
        assert job.vector is not None, "all states were read"
        return job.vector

    def rank(self, query: str, texts: Sequence[str], *, truncate: bool = False) -> Reals:
        """Return how well each text answers a query, float32 [texts]; larger is better.

        Args:
            query: A text.
            texts: Others.
            truncate: Cut the text of a pair that is too long.
        Raises:
            QuantValueError: A pair is too long.
            UnsupportedError: The model gives vectors, or several scores.
        """
        return np.array([self.score(*self.pair(query, text, truncate)) for text in texts], np.float32)

    def score(self, ids: Sequence[int], types: Sequence[int]) -> float:
        """Return the score of a pair's tokens; errors as for `rank`.

        Args:
            ids: Tokens of both texts.
            types: 0 for those of the first text, 1 for those of the second one.
        """
        if not self.is_reranker:
            raise UnsupportedError(
                "rank",
                "a model that gives vectors",
                "a reranker, with one score for a pair",
                "use embed(texts)",
            )
        scores = self._run(ids, types)[0].astype(np.float64)
        if scores.size != 1:
            raise UnsupportedError("rank", f"{scores.size} scores for a pair", "one", "it is a classifier")
        value = float(scores[0])
        return value if self.description.activation == "identity" else float(1 / (1 + np.exp(-value)))

    def tokens(self, text: Text, prompt: str | None = None, truncate: bool = False) -> list[int]:
        """Return the tokens of a text; arguments and errors as for `embed`."""
        how = self.description.pooling
        name = how.default_prompt if prompt is None else prompt
        if name and name not in how.prompts:
            raise QuantValueError("prompt", f"'{name}'", ", ".join(how.prompts) or "none", "leave it out")
        if not isinstance(text, str):
            return self._cut(list(text), 0, truncate)
        ids = self.tokenizer.encode(how.prompts[name] + text if name else text)
        return self._cut(ids, len(self.tokenizer.appended), truncate)

    def pair(self, query: str, text: str, truncate: bool = False) -> tuple[list[int], list[int]]:
        """Return the tokens of a pair, and their types; arguments and errors as for `rank`."""
        ids, types = self.tokenizer.encode_pair(query, text)
        ids = self._cut(ids, len(self.tokenizer.appended), truncate)
        return ids, types[: len(ids)]

    def _cut(self, ids: list[int], behind: int, truncate: bool) -> list[int]:
        """Return tokens as long as the model takes; the `behind` last ones, which are special, stay."""
        if not ids:
            raise QuantValueError("text", "no token", "one at least", "leave out empty texts")
        words = self.vocabulary
        if not all(0 <= token < words for token in ids):
            raise QuantValueError("text", "tokens out of the vocabulary", f"0 to {words - 1}", "correct them")
        most = self.positions
        if not most or len(ids) <= most:
            return ids
        if not truncate:
            raise QuantValueError(
                "text", f"{len(ids)} tokens", f"at most {most}, as the model's files say",
                "cut the text, or give --truncate (truncate=True)",
            )  # fmt: skip
        return [*ids[: most - behind], *ids[len(ids) - behind :]]

    @property
    def vocabulary(self) -> int:
        """Tokens of the tokenizer."""
        return max(self.tokenizer.words().values(), default=-1) + 1

    def _run(self, ids: Sequence[int], types: Sequence[int]) -> NDArray[np.floating]:
        """Return the output for one text: [1, tokens, channels], [1, channels] or [1, labels]."""
        values = {
            "input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": types,
            "position_ids": range(len(ids)),
        }  # fmt: skip
        feeds = {name: np.array([values[name]], dtype) for name, dtype in self._dtypes.items()}
        with self._lock:
            return np.asarray(self.engine.run(feeds)[self.output])


def load_encoder(
    path: str | os.PathLike[str], *, files: str | os.PathLike[str] | None = None, threads: int | None = None,
    accept: Collection[str] = (),
) -> TextEncoder:  # fmt: skip
    """Open a text encoder or a reranker: an ONNX file, float or quantized, with the files of its folder.

    Args:
        path: The ONNX file, or a folder with model.onnx or onnx/model.onnx.
        files: The folder of tokenizer.json, config.json and those of sentence-transformers; None: the file's.
        threads: Of a run; None: as many as the process may use.
        accept: Fields of these files that pass although nothing computes what they say.
    Raises:
        FileFormatError, FileAccessError: A file is missing, damaged, or cannot be read.
        UnsupportedError: A field, module, input or output has no meaning here.
    """
    encoder_files = find_files(path, files)
    description = describe_encoder(encoder_files.folder, accept)
    tokenizer = tokenizer_of_file(encoder_files.folder / TOKENIZER, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a float model, which runs
        engine = compile_model(encoder_files.model, threads=threads)
    return TextEncoder(engine, tokenizer, description)
