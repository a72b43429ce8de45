"""``intact lm``: language models from files to tokens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from intact import lm
from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson, check_output_path, check_thread_count
from intact.cli.verbs.models.model_commands import Accept, serve, show, verify
from intact.errors import QuantValueError
from intact.reading import read_bytes

Model = Annotated[
    Path,
    typer.Argument(
        help="A GGUF file, a Hugging Face folder, or a folder of `intact lm quantize`.", exists=True
    ),
]
Weights = Annotated[
    str, typer.Option(help="keep, float32, int8, int4 or uint4; a quantized folder has its own.")
]
NewWeights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="keep, float32, int8, int4 or uint4. By default a GGUF file with codes keeps them, unless a text"
        " or a budget is given, and other weights become int4.",
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        help="The same for the layer that makes logits: int8, keep where weights are kept, or under a budget"
        " what it leaves."
    ),
]
Block = Annotated[int, typer.Option(help="Elements that share a scale.", min=16, max=2**16)]
Threads = Annotated[int | None, typer.Option(help="Of a run.", callback=check_thread_count)]
Positions = Annotated[
    int | None, typer.Option(help="The longest sequence; by default the model's, up to 8192.")
]
TokenizerFile = Annotated[
    Path | None, typer.Option(help="A tokenizer.json in place of the model's.", exists=True)
]
Cache = Annotated[
    str | None,
    typer.Option(
        help="How keys and values are kept: float32, float16 or int8; a quantized folder has its own."
    ),
]
MaxTokens = Annotated[int, typer.Option(help="At most so many are generated.", min=1)]
Temperature = Annotated[float, typer.Option(help="0: the most likely token.")]
TopP = Annotated[float, typer.Option(help="Share of the probability that is drawn from.")]
TopK = Annotated[int, typer.Option(help="Tokens that are drawn from; 0: all.")]
Seed = Annotated[int, typer.Option(help="Of what is drawn: the same tokens on every machine.")]
Text = Annotated[Path, typer.Option(help="A text file in UTF-8.", exists=True, dir_okay=False)]
Length = Annotated[int, typer.Option(help="Tokens of a window.", min=2)]
Windows = Annotated[int | None, typer.Option(help="At most so many windows; all by default.", min=1)]


def quantize(
    model: Model,
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The folder to write.", callback=check_output_path)
    ],
    weights: NewWeights = None,
    head: Head = None,
    block: Block = 32,
    positions: Positions = None,
    tokenizer: TokenizerFile = None,
    text: Annotated[
        Path | None, typer.Option(help="Choose codes by what layers read on this text.", exists=True)
    ] = None,
    method: Annotated[str, typer.Option(help="How, with --text: auto, awq, gptq, ...")] = "auto",
    cache: Cache = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Spread outliers over all channels before codes are chosen.")
    ] = False,
    bits_budget: Annotated[
        float | None, typer.Option(help="The most bits for each weight, with scales: layers get 2 to 8.")
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(help="The most milliseconds of a token, here, for all weights.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Of a token, for --time-budget.", callback=check_thread_count)
    ] = None,
    accept: Accept = None,
) -> None:
    """Quantize a language model, and write a folder that opens at once.

    Weights get codes in blocks, or keep those of a GGUF file; activations get int8 codes in blocks while the
    model runs. With `--text` 4 bits lose a fifth as much, after some minutes of work. Under a budget layers
    get 2 to 8 bits, more where answers lose most without them.

    Examples:

    - `intact lm quantize model.gguf --text sample.txt -o folder`
    - `intact lm quantize model.gguf --text sample.txt --bits-budget 4.6 --block 64 -o folder`
    - `intact lm quantize Qwen3-0.6B --weights int8 -o folder`
    """
    begin = perf_counter()
    if weights is None:
        is_chosen = (text, bits_budget, time_budget) != (None, None, None) or rotate
        weights = "keep" if not is_chosen and lm.stored_code_bits(model) else "int4"
    if head is None and bits_budget is None and time_budget is None:
        head = "keep" if weights == "keep" else "int8"
    loaded = lm.load(
        model,
        weights=weights,
        block=block,
        bits_of=None if head is None else {"head": head},
        positions=positions,
        threads=threads,
        bits_budget=bits_budget,
        time_budget=time_budget,
        tokenizer=tokenizer,
        text=None if text is None else _read_text(text),
        method=method,
        progress=True,
        cache=cache,
        rotate=rotate,
        accept=accept or (),
        reuse=False,
    )
    lm.save(loaded, out)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    say(f"wrote {out}: {size:,.0f} MB, {perf_counter() - begin:.0f} s")


def run(
    model: Model,
    prompt: Annotated[str, typer.Argument(help="Text to continue; - reads it from the standard input.")],
    weights: Weights = "keep",
    block: Block = 32,
    max_tokens: MaxTokens = 128,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    top_k: TopK = 0,
    seed: Seed = 0,
    lookup: Annotated[bool, typer.Option(help="Try what followed the same words before.")] = False,
    draft: Annotated[
        Path | None, typer.Option(help="A smaller model of the same vocabulary, which proposes.", exists=True)
    ] = None,
    threads: Threads = None,
    tokenizer: TokenizerFile = None,
    positions: Positions = None,
    accept: Accept = None,
) -> None:
    """Continue a text.

    Examples:

    - `intact lm run model.gguf "The capital of France is"`
    - `intact lm run folder "Once upon a time" --temperature 0.8 --top-p 0.9 --seed 3`
    - `intact lm run folder "Once upon a time" --draft smaller-folder`
    """
    loaded = lm.load(
        model, weights=weights, block=block, threads=threads, tokenizer=tokenizer, positions=positions,
        accept=accept or (),
    )  # fmt: skip
    sampling = lm.Sampling(temperature, top_k, top_p, seed=seed)
    text = sys.stdin.read() if prompt == "-" else prompt
    proposer = None if draft is None else lm.load(draft, threads=threads)
    for piece in loaded.stream(text, max_tokens=max_tokens, sampling=sampling, lookup=lookup, draft=proposer):
        typer.echo(piece, nl=False)
    typer.echo()


def chat(
    model: Model,
    weights: Weights = "keep",
    system: Annotated[str, typer.Option(help="What the model is told first.")] = "",
    max_tokens: MaxTokens = 512,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    threads: Threads = None,
    accept: Accept = None,
    chat_template_kwargs: Annotated[
        str, typer.Option(help="Variables of the chat template, as a JSON object.", metavar="JSON")
    ] = "{}",
) -> None:
    """Talk to a model: a line is a message, the end of the input ends the conversation.

    Examples:

    - `intact lm chat folder --system "Answer in one sentence."`
    - `intact lm chat folder --chat-template-kwargs '{"enable_thinking": false}'`
    """
    variables = _json_object(chat_template_kwargs, "--chat-template-kwargs")
    loaded = lm.load(model, weights=weights, threads=threads, accept=accept or ())
    sampling = lm.Sampling(temperature, top_p=top_p, seed=seed)
    messages: list[dict[str, str | None]] = [{"role": "system", "content": system}] if system else []
    cache = loaded.new_cache()
    for line in sys.stdin:
        messages.append({"role": "user", "content": line.rstrip("\n")})
        answer = ""
        prompt = loaded.chat_prompt(messages, chat_template_kwargs=variables)
        for piece in loaded.stream(prompt, max_tokens=max_tokens, sampling=sampling, cache=cache):
            typer.echo(piece, nl=False)
            answer += piece
        typer.echo()
        reasoning, text = lm.split_reasoning(answer, prompt)
        messages.append({"role": "assistant", "content": text, "reasoning_content": reasoning or None})


def _json_object(text: str, where: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise QuantValueError(where, f"'{text:.80}'", "a JSON object", "write it as '{\"name\": value}'")
    return value


def perplexity(
    model: Model,
    text: Text,
    weights: Weights = "keep",
    length: Length = 512,
    windows: Windows = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model predicts a text.

    Examples:

    - `intact lm perplexity folder --text wiki.test.raw`
    """
    loaded = lm.load(model, weights=weights, threads=threads)
    parts = lm.token_windows(loaded, _read_text(text), length, windows)
    value = lm.perplexity(loaded, parts, progress=not as_json)
    if as_json:
        show_json({"perplexity": value, "tokens": len(parts) * length})
    else:
        say(f"perplexity {value:.3f} over {len(parts) * length:,} tokens")


def compare(
    first: Model,
    other: Model,
    text: Text,
    first_weights: Weights = "float32",
    weights: Weights = "keep",
    length: Length = 512,
    windows: Windows = 16,
    threads: Threads = None,
    page: Annotated[
        Path | None, typer.Option(help="An HTML page with plots to write.", callback=check_output_path)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what one model lost against another one, on a text.

    Examples:

    - `intact lm compare model.gguf folder --text wiki.test.raw --page report.html`
    """
    models = [
        lm.load(path, weights=choice, threads=threads)
        for path, choice in ((first, first_weights), (other, weights))
    ]
    contents = _read_text(text)
    parts = lm.token_windows(models[0], contents, length, windows)
    result = lm.compare_models(models[0], models[1], parts, progress=not as_json)
    prompts = [list(map(int, part[:32])) for part in parts[:8]]
    flips = lm.first_flips(models[0], models[1], prompts, 32)
    layers = lm.layer_losses(models[0], models[1], parts[0])
    record = vars(result) | {
        "prompts": len(flips), "first_flips": flips,
        "bits_per_weight": [lm.weight_bits(model) for model in models],
        "bytes": [lm.weight_bytes(model) for model in models],
        "tokens_per_second": [_decode_speed(model, 64, 16) for model in models],
        "layers": [vars(layer) for layer in layers],
    }  # fmt: skip
    del record["divergences"]
    rows = _comparison_rows(record)
    if page is not None:
        from intact.report import write_comparison

        write_comparison(result, layers, rows, page, f"{first.name} and {other.name}")
    if as_json:
        show_json(record)
    else:
        show_table(f"{first.name} and {other.name}", ("", ""), rows)


def _comparison_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, figure) rows of a comparison."""

    def pair(name: str, form: str, scale: float = 1.0) -> str:
        return " -> ".join(format(value / scale, form) for value in record[name])

    flipped = [at for at in record["first_flips"] if at is not None]
    worst = sorted(record["layers"], key=lambda layer: -layer["error"])[:3]
    return [
        ("tokens", f"{record['tokens']:,}"),
        ("perplexity", f"{record['perplexity']:.3f} -> {record['other_perplexity']:.3f}"),
        ("KL, mean (nats per token)", f"{record['kl']:.4f}"),
        ("KL, 99.9%", f"{record['kl_999']:.3f}"),
        ("same most likely token", f"{100 * record['same_top']:.1f}%"),
        ("greedy answers that differ within 32 tokens", f"{len(flipped)} of {record['prompts']}"),
        ("first token that differs, median", f"{int(np.median(flipped))}" if flipped else "none"),
        ("bits for each weight", pair("bits_per_weight", ".2f")),
        ("weights, MB", pair("bytes", ",.0f", 1e6)),
        ("tokens a second", pair("tokens_per_second", ",.1f")),
        ("layers that lose most", ", ".join(f"{x['name']} ({x['error']:.1e})" for x in worst) or "-"),
    ]  # fmt: skip


def bench(
    model: Model,
    weights: Weights = "keep",
    prompt: Annotated[int, typer.Option(help="Tokens of the prompt.", min=1)] = 512,
    generate: Annotated[int, typer.Option(help="Tokens that are generated.", min=1)] = 64,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Time prompts and generation on this machine.

    Examples:

    - `intact lm bench folder --threads 2`
    """
    loaded = lm.load(model, weights=weights, threads=threads, positions=prompt + generate + 1)
    cache, tokens = loaded.new_cache(), _some_tokens(loaded, prompt)
    seconds = [_seconds(lambda: append_anew(cache, tokens)) for _ in range(3)]
    prefill, decode = prompt / min(seconds), _decode_speed(loaded, prompt, generate)
    if as_json:
        show_json({"prompt_tokens_per_second": prefill, "tokens_per_second": decode})
    else:
        say(f"prompt of {prompt}: {prefill:,.0f} tokens a second; generation: {decode:.1f}")


def _some_tokens(model: lm.LanguageModel, count: int) -> list[int]:
    return [i % min(97, model.vocabulary) for i in range(1, count + 1)]


def _decode_speed(model: lm.LanguageModel, prompt: int, count: int) -> float:
    """Return the tokens that are generated in a second behind a prompt, by the median of `count`."""
    cache = model.new_cache()
    cache.append(_some_tokens(model, max(1, min(prompt, model.positions - count))))
    times = [
        _seconds(lambda: cache.append([7 % model.vocabulary])) for _ in range(min(count, model.positions - 1))
    ]
    return 1 / float(np.median(times))


def append_anew(cache: lm.SequenceCache, tokens: list[int]) -> None:
    """Append tokens to an empty sequence."""
    cache.truncate(0)
    cache.append(tokens)


def _seconds(action: Callable[[], object]) -> float:
    begin = perf_counter()
    action()
    return perf_counter() - begin


def _read_text(path: Path) -> str:
    return read_bytes(path).decode("utf-8", "replace")


VERBS: dict[str, Callable[..., None]] = {
    "quantize": quantize, "run": run, "chat": chat, "perplexity": perplexity, "compare": compare,
    "bench": bench, "serve": serve, "show": show, "verify": verify,
}  # fmt: skip
