"""A language model that runs: text in, text out; the same tokens on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine import Engine, Plan
from intact.errors import QuantValueError
from intact.lm.chat.chat_prompt import ChatPrompt, chat_prompt
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.chat.reasoning import is_part_of_mark
from intact.lm.continuous_batch import ContinuousBatch, SequenceJob
from intact.lm.description.model_description import ModelDescription, Pooling
from intact.lm.generate import CHUNK, StopRules, TokenChoice, generate_tokens
from intact.lm.sampling import Sampler, Sampling
from intact.lm.schemas import NormalizedSchema
from intact.lm.sequence_cache import SequenceCache, Tokens
from intact.lm.sequence_jobs import EmbeddingJob, TextJob
from intact.lm.speculation import Draft, DraftModel, PromptLookup, generate_with_draft
from intact.lm.text_stream import TextStream
from intact.lm.token_grammar import TokenGrammar
from intact.lm.tokenizer import Tokenizer


@dataclass
class LanguageModel:
    """A decoder, its tokenizer, and what its files say about both.

    Attributes:
        engine: Runs the decoder (`decoder_model`).
        positions: The longest sequence that it takes.
        tokenizer: None: tokens go in and come out.
        templates: Chat templates; a text is the default one, whose variables are the texts of `tokenizer`.
        settings: What was chosen when it was loaded or quantized.
        description: What its files say of it; None: unknown.
    """

    engine: Engine
    positions: int
    tokenizer: Tokenizer | None = None
    templates: ChatTemplates | str = ""
    settings: Mapping[str, str | int] = field(default_factory=dict)
    description: ModelDescription | None = None

    def new_cache(self, batch: int = 1) -> SequenceCache:
        """Return an empty cache for so many sequences."""
        return SequenceCache(self.engine, batch, most=self.positions)

    def generate(
        self, prompt: str | Sequence[int], *, max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (), lookup: bool = False, draft: LanguageModel | None = None,
        grammar: TokenGrammar | None = None, chunk: int = CHUNK, cache: SequenceCache | None = None,
    ) -> str:  # fmt: skip
        """Return the text that follows a prompt.

        Args:
            prompt: Text, or tokens.
            max_tokens: At most so many are generated.
            sampling: How each is chosen; None: greedily.
            stop: Texts at which it ends; they are left out.
            lookup: Try tokens that followed the same words before: faster where texts repeat themselves, and
                the same tokens.
            draft: A smaller model of the same vocabulary, which proposes tokens: faster where both choose
                alike, and the same tokens.
            grammar: What the text follows (`grammar`).
            chunk: Tokens of the prompt that run together: no bit depends on it.
            cache: From `new_cache`: what it has of the beginning of the prompt is not run again, and it has
                the prompt and the answer afterwards. None: a new one.
        Raises:
            QuantValueError: A setting is wrong, or the prompt is too long.
        """
        pieces = self.stream(
            prompt, max_tokens=max_tokens, sampling=sampling, stop=stop, lookup=lookup, draft=draft,
            grammar=grammar, chunk=chunk, cache=cache,
        )  # fmt: skip
        return "".join(pieces)

    def stream(
        self, prompt: str | Sequence[int], *, max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (), lookup: bool = False, draft: LanguageModel | None = None,
        grammar: TokenGrammar | None = None, chunk: int = CHUNK, cache: SequenceCache | None = None,
    ) -> Iterator[str]:  # fmt: skip
        """Yield the text that follows a prompt, piece by piece; arguments as for `generate`."""
        tokenizer = self.require_tokenizer()
        text = TextStream(tokenizer, stop, marks=self.mark_tokens if isinstance(prompt, ChatPrompt) else None)
        for token in self.generate_tokens(
            prompt, max_tokens=max_tokens, sampling=sampling, lookup=lookup, draft=draft, grammar=grammar,
            chunk=chunk, cache=cache,
        ):  # fmt: skip
            if token in tokenizer.eos:
                break
            if piece := text.push(token):
                yield piece
            if text.stop_text:
                return
        yield text.finish()

    def generate_tokens(
        self, prompt: str | Sequence[int], *, max_tokens: int = 128, sampling: Sampling | None = None,
        lookup: bool = False, draft: LanguageModel | None = None, grammar: TokenGrammar | None = None,
        chunk: int = CHUNK, cache: SequenceCache | None = None,
    ) -> Iterator[int]:  # fmt: skip
        """Yield the tokens that follow a prompt; arguments as for `generate`.

        Raises:
            QuantValueError: Both `lookup` and a draft model are given, or the prompt is too long.
        """
        _check_count(max_tokens)
        ids = self.encode(prompt)
        choice = self.token_choice(ids, max_tokens, sampling or Sampling(), grammar)
        cache = self.new_cache() if cache is None else cache
        if draft is not None:
            if lookup:
                raise QuantValueError("draft", "lookup, too", "one of both", "leave one of them out")
            self._check_draft(draft)
            proposer: Draft = DraftModel(draft.new_cache(), draft.positions)
        elif lookup:
            proposer = PromptLookup()
        else:
            return generate_tokens(cache, ids, choice, chunk)
        return generate_with_draft(cache, ids, choice, proposer, chunk)

    def _check_draft(self, draft: LanguageModel) -> None:
        """Refuse a draft model whose tokens are not those of this one."""
        words = [model.tokenizer.words() if model.tokenizer is not None else None for model in (self, draft)]
        if draft.vocabulary != self.vocabulary or words[0] != words[1]:
            raise QuantValueError(
                "draft", f"a vocabulary of {draft.vocabulary} tokens", f"the {self.vocabulary} of the model",
                "take a smaller model of the same family",
            )  # fmt: skip

    def generate_each(
        self, prompts: Sequence[str | Sequence[int]], *, max_tokens: int = 128,
        sampling: Sampling | None = None, stop: Sequence[str] = (), grammar: TokenGrammar | None = None,
        batch: int = 8,
    ) -> list[str]:  # fmt: skip
        """Return the text that follows each prompt, as `generate` does for each alone.

        Args:
            prompts: Texts, or tokens.
            max_tokens, sampling, stop, grammar: As for `generate`.
            batch: Prompts at a time: another one begins when one ends.
        Raises:
            QuantValueError: A setting is wrong, or a prompt is too long.
        """
        _check_count(max_tokens)
        jobs = []
        for prompt in prompts:
            ids = self.encode(prompt)
            choice = self.token_choice(ids, max_tokens, sampling or Sampling(), grammar)
            jobs.append(TextJob(ids, choice, self.require_tokenizer(), stop))
        self._run_jobs(jobs, batch)
        return ["".join(job.pieces) for job in jobs]

    @property
    def pooling(self) -> Pooling:
        """The way in which its files say that the hidden states of a text become its vector."""
        return Pooling() if self.description is None else self.description.pooling

    def embed(
        self, texts: Sequence[str | Sequence[int]], *, pooling: str | None = None, prompt: str | None = None,
        chunk: int = CHUNK,
    ) -> NDArray[np.float32]:  # fmt: skip
        """Return a vector for each text, float32 [texts, hidden].

        Args:
            texts: Texts, or tokens.
            pooling: Of the hidden states that the head reads, one of `POOLINGS`; vectors have the length 1
                then. None: as the model's files say it, or else the mean.
            prompt: Name of a text of the model's files that is put in front, such as "query"; None: the one
                that they take by default, if any.
            chunk: Tokens that run together: no bit depends on it.
        Raises:
            QuantValueError: A text is empty or too long, or the model was saved before models had states.
        """
        how = self.pooling if pooling is None else Pooling(pooling)
        jobs = [EmbeddingJob(self.embedding_tokens(text, prompt), how) for text in texts]
        self._run_jobs(jobs, 1, chunk)
        vectors = [job.vector for job in jobs if job.vector is not None]
        return np.stack(vectors) if vectors else np.empty((0, 0), np.float32)

    def embedding_tokens(self, text: str | Sequence[int], prompt: str | None = None) -> list[int]:
        """Return the tokens of a text that is embedded; arguments and errors as for `embed`.

        Raises:
            QuantValueError: The model has no such prompt, or the text is too long.
        """
        prompts, name = self.pooling.prompts, self.pooling.default_prompt if prompt is None else prompt
        if name and name not in prompts:
            raise QuantValueError("prompt", f"'{name}'", ", ".join(prompts) or "none", "leave it out")
        ids = self.encode(prompts[name] + text if name and isinstance(text, str) else text)
        appended = list(self.tokenizer.appended) if self.tokenizer is not None else []
        if (
            appended and ids[-2 * len(appended) :] == 2 * appended
        ):  # a caller puts there what `encode` has put
            ids = ids[: -len(appended)]
        longest = self.pooling.longest
        if longest and len(ids) > longest:
            raise QuantValueError(
                "text", f"{len(ids)} tokens", f"at most {longest}, as the model's files say", "cut the text"
            )
        self.check_length(ids, 0)
        return ids

    def grammar(
        self, grammar: str | None = None, *,
        json_schema: NormalizedSchema | Mapping[str, Any] | str | None = None,
    ) -> TokenGrammar:  # fmt: skip
        """Return what a text is to follow, for `generate`; it serves any number of texts.

        Args:
            grammar: In Lark's notation, as llguidance reads it.
            json_schema: A JSON schema in place of a grammar. A keyword that no grammar enforces is an error.
        Raises:
            QuantValueError: It is damaged or too large.
            UnsupportedError: llguidance does not read the tokenizer.
            MissingExtraError: llguidance is not installed.
        """
        tokenizer = self.require_tokenizer()
        return TokenGrammar(tokenizer, self.vocabulary, grammar=grammar, json_schema=json_schema)

    def token_choice(
        self, ids: Sequence[int], max_tokens: int, sampling: Sampling, grammar: TokenGrammar | None = None,
        stream: int = 0, stop_rules: StopRules | None = None,
    ) -> TokenChoice:  # fmt: skip
        """Return what chooses the tokens behind a prompt.

        Args:
            ids: The prompt.
            max_tokens, sampling, grammar: As for `generate`.
            stream: Number of the answer, where a prompt has several: each draws by itself.
            stop_rules: When it ends, beside `max_tokens`; None: at the model's end tokens.
        Raises:
            QuantValueError: There are too many tokens, or an end token is none of the vocabulary.
        """
        stop_rules = stop_rules or StopRules()
        if max_tokens < 0:
            raise QuantValueError("max_tokens", str(max_tokens), "0 or more", "generate more")
        if stop_rules.tokens and max(stop_rules.tokens) >= self.vocabulary:
            raise QuantValueError(
                "stop_token_ids",
                str(max(stop_rules.tokens)),
                f"tokens below {self.vocabulary}",
                "leave it out",
            )
        self.check_length(ids, max_tokens)
        grammar = grammar.copy() if grammar is not None else None
        ends = stop_rules.tokens if stop_rules.ignores_ends else stop_rules.tokens | self._ends
        return TokenChoice(ids, Sampler(sampling, stream), max_tokens, ends, grammar, stop_rules.least)

    def check_length(self, ids: list[int] | Sequence[int], max_tokens: int) -> Sequence[int]:
        """Return a prompt that fits with what is generated.

        Args:
            ids: Tokens of the prompt.
            max_tokens: Tokens to generate behind it, at most.
        Raises:
            QuantValueError: It does not.
        """
        if len(ids) + max_tokens > self.positions:
            raise QuantValueError(
                "tokens", f"a prompt of {len(ids)} and {max_tokens} to generate", f"{self.positions} in all",
                "generate fewer, or load a longer context",
            )  # fmt: skip
        return ids

    @property
    def vocabulary(self) -> int:
        """Tokens that logits are for."""
        return next(int(port.shape[-1]) for port in self.engine.outputs if port.name == "logits")

    @property
    def hidden_size(self) -> int | None:
        """Length of the vectors of texts; None: the model was saved before models had states."""
        sizes = [int(port.shape[-1]) for port in self.engine.outputs if port.name == "states"]
        return sizes[0] if sizes else None

    @property
    def _ends(self) -> frozenset[int]:
        return frozenset(self.tokenizer.eos if self.tokenizer is not None else ())

    def _run_jobs(self, jobs: Sequence[SequenceJob], slots: int, chunk: int = CHUNK) -> None:
        """Run jobs in a batch, and raise the first error."""
        running = ContinuousBatch(self.new_cache, slots, chunk)
        for job in jobs:
            running.add(job)
        while running.step():
            pass
        for job in jobs:
            if job.error is not None:
                raise job.error

    def chat(
        self, messages: Sequence[Any], *, tools: Sequence[Any] = (),
        documents: Sequence[Any] | None = None, chat_template_kwargs: Mapping[str, Any] | None = None,
        **options: object,
    ) -> str:  # fmt: skip
        """Return the answer to a conversation, with its reasoning in front (`split_reasoning`).

        Args:
            messages, tools, documents, chat_template_kwargs: As for `chat_prompt`.
            options: As for `generate`.
        Raises:
            QuantValueError: The model has no chat template, or it refuses the messages.
        """
        prompt = self.chat_prompt(
            messages, tools, documents=documents, chat_template_kwargs=chat_template_kwargs
        )
        return self.generate(prompt, **options)  # type: ignore[arg-type]

    def chat_prompt(
        self, messages: Sequence[Any], tools: Sequence[Any] = (), *,
        documents: Sequence[Any] | None = None, template: str = "",
        add_generation_prompt: bool | None = None, continue_final_message: bool | str = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> ChatPrompt:  # fmt: skip
        """Return the text that a conversation is for the model; arguments and errors as for `chat_prompt`.

        `generate` and `encode` read special tokens that the text names, and put none in front that the
        template did not write, as transformers does.
        """
        return chat_prompt(
            self.chat_templates, messages, tools=tools, documents=documents, template=template,
            add_generation_prompt=add_generation_prompt, continue_final_message=continue_final_message,
            chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip

    @cached_property
    def mark_tokens(self) -> dict[int, str]:
        """Texts of special tokens that are marks of reasoning, or parts of such, by their numbers."""
        words = self.tokenizer.special_words() if self.tokenizer is not None else {}
        return {number: word for number, word in words.items() if is_part_of_mark(word)}

    @property
    def template(self) -> str:
        """Chat template of conversations without tools; "" for none."""
        return self.chat_templates.templates.get("default", "")

    @property
    def chat_templates(self) -> ChatTemplates:
        """Chat templates with the texts of special tokens."""
        if isinstance(self.templates, str):
            ends = self.tokenizer.eos[:1] if self.tokenizer is not None else ()
            begin = self.tokenizer.bos if self.tokenizer is not None else None
            tokens = {"bos_token": begin, "eos_token": next(iter(ends), None)}
            texts = {name: self._special_text(token) for name, token in tokens.items()}
            return ChatTemplates(
                {"default": self.templates} if self.templates else {}, texts, adds_begin=True
            )
        return self.templates

    def _special_text(self, token: int | None) -> str:
        """Return the text of a special token; "" for none."""
        if token is None or self.tokenizer is None:
            return ""
        return self.tokenizer.decode([token], special=True)

    def score(self, text: str | Sequence[int]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each token but the first, behind those before it."""
        ids = self.encode(text)
        scores = [
            log_probabilities(rows)[np.arange(len(following)), following]
            for rows, following in self._logits_of(ids)
        ]
        return np.concatenate(scores) if scores else np.empty(0)

    def logits(self, tokens: Tokens) -> NDArray[np.float32]:
        """Return the logits behind each token of a sequence, [tokens, vocabulary]."""
        cache, ids = self.new_cache(), list(np.asarray(tokens).reshape(-1))
        parts = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
        return np.concatenate([cache.append(part, range(len(part))) for part in parts])

    def _logits_of(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float32], list[int]]]:
        cache = self.new_cache()
        for start in range(0, len(ids) - 1, CHUNK):
            part = list(ids[start : min(start + CHUNK, len(ids) - 1)])
            yield cache.append(part, range(len(part))), list(ids[start + 1 : start + 1 + len(part)])

    def encode(self, text: str | Sequence[int]) -> list[int]:
        """Return the tokens of a text; tokens as they are.

        Raises:
            QuantValueError: There are none.
        """
        if isinstance(text, ChatPrompt):
            ids = self.require_tokenizer().encode_chat(text, adds_begin=text.adds_begin)
        elif isinstance(text, str):
            ids = self.require_tokenizer().encode(text)
        else:
            ids = [int(token) for token in text]
        if not ids:
            raise QuantValueError("prompt", "no token", "one or more", "begin with the first token of a text")
        return ids

    def require_tokenizer(self) -> Tokenizer:
        """Return the tokenizer.

        Raises:
            QuantValueError: There is none.
        """
        if self.tokenizer is None:
            raise QuantValueError(
                "model", "no tokenizer", "one, for text", "pass tokenizer= to load, or pass tokens"
            )
        return self.tokenizer


def _check_count(max_tokens: int) -> None:
    if max_tokens < 1:
        raise QuantValueError("max_tokens", str(max_tokens), "1 or more", "generate more")


def log_probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the logarithms of softmax over the last axis, in float64."""
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    values -= np.log(np.exp(values).sum(axis=-1, keepdims=True))
    return values


_SCALE_BITS = 16


def weight_bits(model: LanguageModel) -> float:
    """Return the bits of a weight on average: of codes, scales and minima of 16 bits, and zero points.

    Weights are those of products and of tables with codes, each counted once. Floats have their own bits.
    """
    bits: dict[str, tuple[int, float]] = {}
    for step in model.engine.plan.steps:
        name = getattr(step, "weight", "")
        if name in model.engine.plan.constants and name not in bits:
            bits[name] = _count_step_weights(model.engine.plan, step)
    return sum(part for _, part in bits.values()) / max(sum(count for count, _ in bits.values()), 1)


def weight_bytes(model: LanguageModel) -> int:
    """Return the bytes of all constants, as they lie in memory: scales as float32."""
    return sum(array.nbytes for array in model.engine.plan.constants.values())


def _count_step_weights(plan: Plan, step: object) -> tuple[int, float]:
    """Return the weights that a step multiplies, and their bits."""
    array = plan.constants[getattr(step, "weight")]  # noqa: B009
    width = getattr(step, "bits", 0)
    if not width:
        return array.size, 8.0 * array.nbytes
    sizes = {
        name: plan.constants[getattr(step, name)].size if getattr(step, name) else 0
        for name in ("scales", "zero_points", "minima")
    }
    shared = _SCALE_BITS * (sizes["scales"] + sizes["minima"]) + width * sizes["zero_points"]
    return len(array) * getattr(step, "inputs"), float(8 * array.nbytes + shared)  # noqa: B009
