"""Random modules through `quantize` and `compile`: do module and engine have the same bits, or is it said?

python -m tests.fuzz.run_torch_nets --base 0 --nets 100     # seeds 0 to 99
python -m tests.fuzz.run_torch_nets --base 17 --nets 1 --show
"""

from __future__ import annotations

import argparse
import collections
import time
import traceback
import warnings
from pathlib import Path

import torch
from tests.fuzz.torch_nets import RandomNet, make_net

import intact
import intact.torch
from intact.errors import IntactError
from intact.torch.models.batches import tensors_in


def check_net(net: RandomNet) -> tuple[str, str]:
    """Return a status and a message.

    "equal": in every bit, on the calibration data and on a batch of another size. "said": bits differ, and
    the report says so, or names the functions that may. "refused": an IntactError. "torch": PyTorch itself
    raises. "wrong": bits that differ silently, an output far from the float module's, or a raw error.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        data, new = [net.batch(3, 1), net.batch(3, 2)], net.batch(5, 3)
        try:
            expected = [x.clone() for x in tensors_in(net.module(*net.batch(5, 3)))]
            net.module(*net.batch(3, 1))
        except Exception as error:
            return "torch", f"{type(error).__name__}: {error}"[:200]
        if not all(x.isfinite().all() for x in expected):
            return "torch", "not finite"
        try:
            return _compare(net, data, new, expected)
        except IntactError as error:
            return "refused", f"{type(error).__name__}: {error}"[:300]
        except Exception as error:
            at = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)][
                -4:
            ]
            return "wrong", f"raw error {type(error).__name__}: {error} at {', '.join(at)}"[:500]


def _compare(net, data, new, expected) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    result = intact.torch.quantize(net.module, [(args,) for args in data], example=data[0], progress=False)
    model = result.model.eval()
    comparison = result.report.comparison
    ours = [x.clone() for x in tensors_in(model(*net.batch(5, 3)))]
    for index, (want, have) in enumerate(zip(expected, ours, strict=True)):
        if want.is_floating_point() and (want - have).norm() > 1.0 * want.norm() + 1e-3:
            return "wrong", f"output {index} of the module is far from float: {(want - have).norm():.3g}"
    engine = intact.torch.compile(model, data[0], threads=1)
    outputs = engine.run({port.name: x.numpy() for port, x in zip(engine.inputs, new, strict=True)})
    theirs = [torch.from_numpy(outputs[port.name]) for port in engine.outputs]
    differing = sum(int(((a != b) & ~((a != a) & (b != b))).sum()) for a, b in zip(ours, theirs, strict=True))
    sentence = comparison.sentence
    if comparison.equal and not differing:
        return "equal", sentence
    if comparison.skipped:
        return "wrong", f"nothing was compared: {sentence}"
    if not comparison.equal or comparison.torch_steps or comparison.parts:
        return "said", f"{differing} differ; {sentence}"
    by = [float((a.double() - b.double()).abs().max()) for a, b in zip(ours, theirs, strict=True)]
    return "wrong", f"{differing} differ silently, by {by}; {sentence}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=int, default=0)
    parser.add_argument("--nets", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--show", action="store_true")
    options, counts, begin = parser.parse_args(), collections.Counter[str](), time.monotonic()
    torch.set_num_threads(1)
    for seed in range(options.base, options.base + options.nets):
        if options.seconds and time.monotonic() - begin > options.seconds:
            break
        try:
            net = make_net(seed)
        except Exception as error:
            counts["torch"] += 1
            print(f"{seed}: cannot be built: {type(error).__name__}: {error}", flush=True)
            continue
        status, message = check_net(net)
        counts[status] += 1
        if options.show:
            print(net.source)
        if options.show or status in ("wrong", "said", "refused"):
            print(f"{seed}: {status}: {message}", flush=True)
    print(f"{sum(counts.values())} nets from seed {options.base}: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
