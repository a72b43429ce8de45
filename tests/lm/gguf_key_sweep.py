"""Compare each key of GGUF metadata with llama.cpp: equal probabilities, or a refusal that names the key.

python -m tests.lm.gguf_key_sweep [--record] [--changed] [ARCHITECTURE ...]

Needs the package xllamacpp, which is llama.cpp. A child process runs it, because it ends the process where
a file contradicts itself. `--record` stores logarithms of probabilities in `gguf_keys.npz`, where they are
others than those of the first file of an architecture. `--changed` leaves out what INTact reads as that file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.lm.gguf_variants import ARCHITECTURES, VOCABULARY, tensor_variants, variants, write_variant
from tests.lm.small_decoders import FOLDER, TOKENS

from intact import IntactError, lm
from intact.formats import open_weights
from intact.lm.description.decoder_config import DecoderConfig
from intact.lm.description.read_description import read_description

STORED = FOLDER / "gguf_keys.npz"
TOLERANCE, GELU_TOLERANCE = 1e-3, 1e-2
"""Of logits: sums are taken in another order, and llama.cpp looks GELU up in a table of 16 bits."""


def log_probabilities(path: Path) -> np.ndarray:
    """Return what INTact computes for the token behind `TOKENS`, float64 [words]."""
    model = lm.load(path, weights="float32", activations="float", threads=1, positions=len(TOKENS))
    logits = np.asarray(model.logits(TOKENS))[-1].astype(np.float64)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def serve_llama() -> None:
    """Read paths from standard input, and write what llama.cpp computes beside them."""
    import xllamacpp

    for line in sys.stdin:
        settings = xllamacpp.CommonParams()
        settings.model.path, settings.n_ctx, settings.n_parallel = line.strip(), 64, 1
        settings.n_batch = settings.n_ubatch = 32
        settings.warmup = False
        settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        try:
            server = xllamacpp.Server(settings)
            answer = server.handle_completions(
                {"prompt": [int(token) for token in TOKENS], "n_predict": 1, "n_probs": VOCABULARY,
                 "temperature": 0.0, "cache_prompt": False}
            )  # fmt: skip
            entries = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            result = np.full(VOCABULARY, np.nan)
            for entry in entries:
                result[entry["id"]] = entry["logprob"]
            np.save(Path(line.strip() + ".npy"), result)
        except Exception:  # of any class: what llama.cpp refuses has no meaning
            pass
        os.write(3, b".")


def config_of(path: Path) -> DecoderConfig | None:
    """Return what INTact reads of a file; None where it refuses the file."""
    try:
        return read_description(open_weights(path), path).decoder
    except IntactError:
        return None


class Llama:
    """Runs llama.cpp in a child, which is started again where it dies."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._end = -1

    def log_probabilities(self, path: Path) -> np.ndarray | None:
        """Return what llama.cpp computes; None where it refuses the file.

        A child that ends behind its answer makes the next request fail, which is why each is tried twice.
        """
        for _ in range(2):
            if self._ask(path):
                break
        result = Path(f"{path}.npy")
        return np.load(result) if result.is_file() else None

    def _ask(self, path: Path) -> bool:
        """Return whether the child answered."""
        if self._child is None or self._child.poll() is not None:
            self._start()
        assert self._child is not None and self._child.stdin is not None
        try:
            self._child.stdin.write(f"{path}\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            self._child.wait()
            return False
        if os.read(self._end, 1):
            return True
        self._child.wait()
        return False

    def _start(self) -> None:
        if self._end >= 0:
            os.close(self._end)
        self._end, end = os.pipe()
        command = f"exec {sys.executable} -m tests.lm.gguf_key_sweep --serve 3>&{end} {end}>&-"
        self._child = subprocess.Popen(
            ["bash", "-c", command], stdin=subprocess.PIPE, text=True, pass_fds=[end],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(end)


def outcome_of(path: Path, name: str, llama: Llama) -> tuple[str, str, np.ndarray | None]:
    """Return what became of a variant, details, and what llama.cpp computes where both do.

    Args:
        path: The file.
        name: Of the key that differs.
        llama: Computes what is right.
    """
    try:
        got = log_probabilities(path)
    except IntactError as error:
        return "refused" if name in str(error) else "not named", str(error)[:230], None
    want = llama.log_probabilities(path)
    if want is None:
        return "no meaning", "llama.cpp refuses it", None
    difference = float(np.abs(got - want).max())
    return ("equal" if difference <= tolerance(path.name) else "wrong"), f"{difference:.2g}", want


def tolerance(architecture: str) -> float:
    """Return how far logits may lie apart for a name that begins with an architecture's."""
    return GELU_TOLERANCE if architecture.startswith(("gemma", "gpt2", "starcoder2")) else TOLERANCE


def load_rows() -> dict[str, np.ndarray]:
    if not STORED.is_file():
        return {}
    with np.load(STORED) as rows:
        return dict(rows)


def main() -> None:
    """Print each variant that is neither equal nor refused by name, and how many are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("architectures", nargs="*", default=list(ARCHITECTURES))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve_llama()
        return
    llama, total = Llama(), Counter[str]()
    stored = {name: row for name, row in load_rows().items() if name.split()[0] not in options.architectures}
    with tempfile.TemporaryDirectory() as folder:
        for architecture in options.architectures:
            counts, base = Counter[str](), None
            for number, (name, key, value, files) in enumerate(all_variants(architecture)):
                path = write_variant(Path(folder) / f"{architecture}{number}.gguf", architecture, *files)
                config = config_of(path)
                base = config if base is None else base
                if options.changed and number and (config is None or config == base) and "tensor" not in key:
                    counts["the same"] += 1
                    continue
                kind, details, want = outcome_of(path, name, llama)
                counts[kind] += 1
                if kind in ("wrong", "not named", "no meaning") or options.verbose:
                    print(f"{kind:<10}  {architecture}.{key} = {value}: {details}")
                first = stored.get(label(architecture, "", None))
                is_new = first is None or want is None or np.abs(want - first).max() > TOLERANCE
                if want is not None and kind == "equal" and is_new:
                    stored[label(architecture, key, value)] = want.astype(np.float32)
                path.unlink()
            print(architecture, dict(counts), flush=True)
            total += counts
    print(dict(total))
    if options.record:
        np.savez_compressed(STORED, **stored)


def all_variants(architecture: str) -> Iterator[tuple[str, str, Any, tuple[Any, ...]]]:
    """Yield the name that a refusal says, the label, and arguments of `write_variant`."""
    for key, value, keys in variants(architecture):
        yield f"{architecture}.{key}" if key else "", key, value, (keys,)
    for number, (name, keys, tensors, left_out) in enumerate(tensor_variants(architecture)):
        yield name, f"tensor {name}", number, (keys, None, tensors, left_out)


def label(architecture: str, key: str, value: Any) -> str:
    """Return the name of a variant in `gguf_keys.npz`."""
    return f"{architecture} {key} {value}"


if __name__ == "__main__":
    main()
