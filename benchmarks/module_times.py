"""Times `quantize` and `compile` of a module, beside torch.export alone.

    python -m pip install torchvision transformers      # beside intact and torch
    python benchmarks/module_times.py [--only resnet18,BERT] [--batches 1] [--repeat 3]

Each network runs in a process of its own, one thread, after a small network has had everything imported.
`export` is `torch.export.export` of the float module with the calibration batch, `quantize` places,
calibrates and chooses ranges with its defaults, `compile` makes the engine of what that returned. Seconds of
the processor, the least of all repetitions. `forward` is one run of the float module on the batch:
calibration takes several. Target: quantize at most 2.5 times torch.export.

With `--profile`: the functions that take the most time of their own and with all that they call.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from promise import without_torchvisions_library

PIXELS, FRAMES = 224, 16
VIDEOS = ("mvit_v2_s",)
IMAGES = ("resnet18", "resnet50", "mobilenet_v3_large", "vit_b_16", "swin_t")
TEXTS = ("BERT", "Llama", "T5 encoder", "ViT")
COLUMNS = ("forward", "export", "quantize", "compile")


def network(name: str, batches: int) -> tuple[Any, list[tuple[Any, ...]]]:
    """A float module of torchvision or transformers, with random weights, and batches for it."""
    import torch

    torch.manual_seed(0)
    if name in (*IMAGES, *VIDEOS):
        from torchvision import models

        sizes = (FRAMES, PIXELS, PIXELS) if name in VIDEOS else (PIXELS, PIXELS)
        return models.get_model(name, weights=None).eval(), [
            (torch.randn(1, 3, *sizes),) for _ in range(batches)
        ]
    from transformers_zoo.nets import ARCHITECTURES, Answers

    (chosen,) = (item for item in ARCHITECTURES if item.name == name)
    result = chosen.batches(batches, seed=1)
    return Answers(chosen.built(), list(result[0])).eval(), [tuple(batch.values()) for batch in result]


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor, and what the work returned."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def measure(name: str, batches: int, repeat: int, profiled: str | None) -> dict[str, float]:
    """One network, in this process."""
    import torch

    import intact

    torch.set_num_threads(1)
    warm = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
    x = torch.randn(1, 3, 8, 8)
    intact.compile(intact.quantize(warm, [(x,)], progress=False).model, (x,))
    model, calls = network(name, batches)
    best: dict[str, float] = {}
    profile = cProfile.Profile()
    for _ in range(repeat):

        def clock(column: str, work: Callable[[], Any]) -> Any:
            if column == profiled:
                profile.enable()
            seconds, result = clock(work)
            profile.disable()
            best[column] = min(seconds, best.get(column, seconds))
            return result

        with torch.no_grad():
            clock("forward", lambda: model(*calls[0]))
        clock("export", lambda: torch.export.export(model, calls[0], strict=False))
        result = clock(
            "quantize", lambda: intact.quantize(model, [(call,) for call in calls], progress=False)
        )
        clock("compile", partial(intact.compile, result.model, calls[0], threads=1))
    if profiled:
        for order in ("tottime", "cumulative"):
            pstats.Stats(profile, stream=sys.stderr).sort_stats(order).print_stats(60)
    return best


def apart(name: str, words: list[str]) -> dict[str, float] | None:
    """One network in a process of its own; None where it fails, whose reason goes to standard error."""
    command = [sys.executable, __file__, "--measure", name, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return None
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--only", help="names, with commas between them")
    words.add_argument(
        "--batches", type=int, default=1, help="calibration batches, of one image, video or sentences"
    )
    words.add_argument("--repeat", type=int, default=3)
    words.add_argument("--profile", choices=COLUMNS, help="of which step to show a profile")
    words.add_argument("--measure", help=argparse.SUPPRESS)
    options = words.parse_args()
    without_torchvisions_library()
    if options.measure:
        result = measure(options.measure, options.batches, options.repeat, options.profile)
        print(json.dumps(result), flush=True)
        return
    passed = ["--batches", str(options.batches), "--repeat", str(options.repeat)]
    passed += ["--profile", options.profile] if options.profile else []
    ratios: list[float] = []
    heads = "".join(f"{column + ' s':>12}" for column in COLUMNS)
    print(f"{'':<20}{heads}{'quantize':>12}{'compile':>10}   times export", flush=True)
    for name in options.only.split(",") if options.only else (*IMAGES, *VIDEOS, *TEXTS):
        row = apart(name, passed)
        if row is None:
            print(f"{name:<20} failed", flush=True)
            continue
        ratios.append(row["quantize"] / row["export"])
        cells = "".join(f"{row[column]:>12.2f}" for column in COLUMNS)
        print(f"{name:<20}{cells}{ratios[-1]:>12.1f}{row['compile'] / row['export']:>10.1f}", flush=True)
    if ratios:
        print(f"median: quantize takes {median(ratios):.1f} times torch.export (at most 2.5)")


if __name__ == "__main__":
    main()
