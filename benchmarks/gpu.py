"""Times the PyTorch face on a CUDA GPU, as multiples of a copy, and compares its bits with the CPU's.

    python benchmarks/gpu.py [--megabytes 256] [--repeats 30] [--no-checks] [--no-times]

Checks come first: fake quantization and its gradient (each format, dtype, granularity and layout), statistics
of calibration, the largest tensors, and `torch.compile`, against the CPU's results, bit for bit. The exit
status is 1 where a bit differs.

Times are the device's own, by CUDA events: a pause is queued in front of each call, so that the host is ahead
when it begins. Everything runs once per round, in turn; printed are medians over the rounds. The host's time
for one call is that of small tensors.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from fake_tensor_quant import forward_backward
from torch import Tensor

from intact.spec import Format
from intact.torch import calib, fake_quantize_formula
from intact.torch.calib.mergeable import MergeableCalibrator
from intact.torch.operators import fake_quantize as ops
from intact.torch.operators import learned_ranges

FORMATS = ["int8", "uint8", "int4", "int3", "int16", "uint16", "fp8e4m3", "fp8e5m2", "fp4e2m1"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
HARD = [0.0, -0.0, 1e-40, -1e-40, math.inf, -math.inf, math.nan, 0.5, 2.5, -0.5, 1e30, -1e-3, 3e38]
CHANNELS, SIDE = 64, 56
PAUSE = 4_000_000  # cycles: about 2 ms

Contender = tuple[str, Callable[[], object]]
Check = tuple[str, Callable[[], bool]]
Lay = Callable[[Tensor], Tensor]


# ---- bits ----


def same_bits(a: Tensor, b: Tensor) -> bool:
    a, b = a.detach().cpu(), b.detach().cpu()
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    numbers = ~b.isnan()
    return (
        a.dtype == b.dtype
        and torch.equal(a.isnan(), b.isnan())
        and torch.equal(a[numbers].view(bits), b[numbers].view(bits))
    )


def hard_values(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Random numbers, special values, and ties of every grid."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 3
    ties = torch.arange(-3000, 3000) / 64
    special = torch.cat([torch.tensor(HARD), ties])
    x.view(-1)[: len(special)] = special
    return x.to(dtype)


def ranges(shape: list[int], low: bool) -> tuple[Tensor, Tensor | None]:
    """Ranges of all sizes, an empty one among them, whose steps put ties of a binary grid onto floats."""
    count = int(torch.tensor(shape).prod()) if shape else 1
    high = torch.linspace(0.3, 7, count)
    high[1:3] = torch.tensor([127 / 64, 0.0])[: max(count - 1, 0)]
    return high.reshape(shape), (-torch.linspace(2, 0.1, count)).reshape(shape) if low else None


def as_it_is(x: Tensor) -> Tensor:
    return x


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def every_other_slice(x: Tensor) -> Tensor:
    return x[:, ::2, 1:]


def transpose(x: Tensor) -> Tensor:
    return x.transpose(0, 3)


def forward_and_backward_agree(
    lay: Lay, x: Tensor, axes: list[int], format: str, low: bool, narrow: bool
) -> bool:
    high, least = ranges([lay(x).shape[a] for a in axes], low)
    results = []
    for device in ("cuda", "cpu"):
        leaf = lay(x.to(device)).detach().requires_grad_()
        ends = high.to(device), None if least is None else least.to(device)
        out = ops.fake_quantize(leaf, *ends, format=format, axis=axes, narrow=narrow)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(x.dtype)
        out.backward(grad.to(device))
        results.append((out, leaf.grad))
    return all(same_bits(a, b) for a, b in zip(*results, strict=True))


def grids(format: str) -> Iterator[tuple[bool, bool]]:
    """(asymmetric, narrow) of each grid that a format has."""
    grid = Format.parse(format)
    for low, narrow in itertools.product([False, True], [False, True]):
        if not (low and grid.is_float) and not (narrow and (grid.is_float or not grid.signed)):
            yield low, narrow


def elementwise_checks() -> Iterator[Check]:
    """Every grid in float32, every format elsewhere, every layout of int8: each compiles kernels."""

    def check(x: Tensor, *call: Any, low: bool = False, narrow: bool = False, lay: Lay = as_it_is) -> Check:
        name = f"{x.dtype} {call} asymmetric {low} narrow {narrow} {lay.__name__}"
        return name, lambda: forward_and_backward_agree(lay, x, *call, low, narrow)

    for dtype, format in itertools.product(DTYPES, FORMATS):
        x = hard_values((6, 16, 33, 31), dtype)
        of_all = list(grids(format)) if dtype == torch.float32 else [(False, False)]
        for axes, (low, narrow) in itertools.product([[], [1]], of_all):
            yield check(x, axes, format, low=low, narrow=narrow)
        if format == "int8":
            for axes in ([0], [3], [0, 1], [0, 2], [0, 1, 2, 3]):
                yield check(x, axes, format)
            for lay in (channels_last, every_other_slice, transpose):
                yield check(x, [1], format, lay=lay)


def histograms_agree(batches: list[Tensor], axis: int | tuple[int, ...] | None) -> bool:
    result = []
    for device in ("cuda", "cpu"):
        calibrator = MergeableCalibrator(8, axis, False)
        for batch in batches:
            calibrator.collect(batch.to(device))
        result.append(calibrator.stats)
    return result[0] == result[1]


def old_histograms_agree(batches: list[Tensor], skip_zeros: bool) -> bool:
    result = []
    for device in ("cuda", "cpu"):
        calibrator = calib.HistogramCalibrator(8, None, False, skip_zeros=skip_zeros)
        for batch in batches:
            calibrator.collect(batch.to(device))
        result.append([calibrator.compute_amax("entropy"), calibrator.compute_amax("mse")])
    return all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(*result, strict=True))


def ends_agree(x: Tensor, axes: list[int]) -> bool:
    return all(
        same_bits(a, b) for a, b in zip(ops.min_max(x.cuda(), axes), ops.min_max(x, axes), strict=True)
    )


def statistics_checks() -> Iterator[Check]:
    generator = torch.Generator().manual_seed(3)
    for dtype in DTYPES:
        batches = [(torch.randn(4, 12, 97, 41, generator=generator) * 10.0**e).to(dtype) for e in (0, -2, 2)]
        batches += [batches[0].relu(), batches[0].contiguous(memory_format=torch.channels_last)]
        for axis in (None, 0, 1, -1, (0, 1)):
            yield (
                f"statistics: {dtype} axis {axis}",
                lambda b=batches, a=axis: histograms_agree(b[:4] if a == (0, 1) else b, a),
            )
        for axes in ([], [0], [1], [3], [0, 1]):
            yield f"ends: {dtype} axes {axes}", lambda x=batches[0], a=axes: ends_agree(x, a)
        for skip in (False, True):
            yield (
                f"HistogramCalibrator: {dtype} skip_zeros {skip}",
                lambda b=batches, s=skip: old_histograms_agree(b, s),
            )


def largest_agree() -> bool:
    """Just below the size that 32-bit offsets reach, and above it, against the formula in slices."""
    for size in (2**31 - 2**17, 2**31 + 5):
        x = torch.empty(size, dtype=torch.float16, device="cuda").normal_()
        call = (torch.tensor(2.0, device="cuda"), None, "int8", None, False)
        out = torch.ops.intact.fake_quantize(x, *call)
        low, high = ops.min_max(x)
        if float(low) != float(x.min()) or float(high) != float(x.max()):
            return False
        for start in range(0, size, 2**28):
            part = slice(start, start + 2**28)
            if not torch.equal(out[part], fake_quantize_formula.fake_quantize(x[part], *call)):
                return False
        del x, out
        torch.cuda.empty_cache()
    return True


def is_learned_quantizer_equal(format: str, low: bool) -> bool:
    x = torch.randn(8, 16, 33, 31, generator=torch.Generator().manual_seed(5))
    results = []
    for device in ("cuda", "cpu"):
        leaf = x.to(device).requires_grad_()
        amax = torch.full((1, 16, 1, 1), 2.0, device=device, requires_grad=True)
        amin = torch.full((1, 16, 1, 1), -1.5, device=device, requires_grad=True) if low else None
        call = {"kind": "lsq+", "format": format, "axis": [1], "features": 100}
        out = learned_ranges.fake_quantize(leaf, amax, amin, **call)
        out.square().sum().backward()
        results.append((out, leaf.grad, amax.grad))
    (out, to_x, to_high), (out_, to_x_, to_high_) = results
    close = torch.allclose(to_high.cpu(), to_high_, rtol=1e-4, atol=1e-5)
    return same_bits(out, out_) and same_bits(to_x, to_x_) and close


def is_compiled_quantizer_equal(format: str, axes: list[int], low: bool) -> bool:
    """Inductor's kernel of ReLU, quantizer and product, and its backward, against eager on the CPU."""

    def body(x: Tensor, high: Tensor, least: Tensor | None) -> Tensor:
        return ops.fake_quantize(x.relu(), high, least, format=format, axis=axes) * 1.5

    x = hard_values((6, 16, 33, 31), torch.float32)
    high, least = ranges([x.shape[a] for a in axes], low)
    results = []
    for device, run in (("cuda", torch.compile(body)), ("cpu", body)):
        leaf = x.to(device).requires_grad_()
        out = run(leaf, high.to(device), None if least is None else least.to(device))
        out.backward(torch.ones_like(out))
        results.append((out, leaf.grad))
    return all(same_bits(a, b) for a, b in zip(*results, strict=True))


def other_checks() -> Iterator[Check]:
    for format, low in (("int8", False), ("uint8", True), ("int4", False)):
        yield f"learned ranges: {format}", lambda f=format, lo=low: is_learned_quantizer_equal(f, lo)
    yield "largest tensors", largest_agree
    for format, axes, low in (("int8", [], False), ("uint8", [1], True), ("fp8e4m3", [1], False)):
        yield (
            f"compiled: {format} axes {axes}",
            lambda f=format, a=axes, lo=low: is_compiled_quantizer_equal(f, a, lo),
        )


def run_checks() -> int:
    """Print each kind with its count, and what differs; return how many do."""
    failures = []
    for kind in (elementwise_checks, statistics_checks, other_checks):
        start, count = time.perf_counter(), 0
        for name, agrees in kind():
            count += 1
            try:
                result = "" if agrees() else "differs"
            except Exception as error:
                result = f"{type(error).__name__}: {str(error)[:300]}"
                if not any(result in f for f in failures):
                    traceback.print_exc(limit=-4)
            if result:
                failures.append(f"{name}: {result}")
        seconds = time.perf_counter() - start
        print(f"{kind.__name__:20} {count:5} checked, {seconds:.0f} s", flush=True)
    print(f"{len(failures)} differ", *failures[:40], sep="\n  ", flush=True)
    return len(failures)


# ---- times ----


def ours(x: Tensor, grad: Tensor) -> Iterator[Contender]:
    fake = ops.fake_quantize
    amax, amaxs = x.abs().amax().float(), x.abs().amax((0, 2, 3), keepdim=True).float()
    rows = x.view(-1, 1024)
    columns = rows.abs().amax(0).float()
    backward = torch.ops.intact.fake_quantize_backward
    yield "fake_quantize, per-tensor", lambda: fake(x, amax)
    yield "fake_quantize, per-channel, axis 1", lambda: fake(x, amaxs)
    yield "fake_quantize, per-channel, last axis", lambda: fake(rows, columns, axis=1)
    yield "fake_quantize, asymmetric uint8", lambda: fake(x, amax, -amax, format="uint8")
    yield "fake_quantize, fp8e4m3", lambda: fake(x, amax, format="fp8e4m3")
    yield "backward, per-tensor", lambda: backward(grad, x, amax, None, "int8", None, False)
    yield "forward + backward, per-tensor", forward_backward(x, grad, lambda t: fake(t, amax))
    yield "forward + backward, per-channel", forward_backward(x, grad, lambda t: fake(t, amaxs))
    yield "min_max, per-tensor", lambda: ops.min_max(x)
    yield "min_max, per-channel", lambda: ops.min_max(x, [1])
    calibrator, by_channel = MergeableCalibrator(8, None, False), MergeableCalibrator(8, 1, False)
    yield "histogram collection, per-tensor", lambda: calibrator.collect(x)
    yield "histogram collection, per-channel", lambda: by_channel.collect(x)
    relu, after_relu = x.relu(), MergeableCalibrator(8, None, False)
    yield "histogram collection, behind ReLU", lambda: after_relu.collect(relu)
    old = calib.HistogramCalibrator(8, None, False)
    yield "HistogramCalibrator", lambda: old.collect(x)
    compiled = torch.compile(lambda t: fake(t.relu(), amax))
    yield "compiled ReLU and fake_quantize", lambda: compiled(x)
    yield (
        "composed formula (no Triton)",
        lambda: fake_quantize_formula.fake_quantize(x, amax, None, "int8", None, False),
    )


def peers(x: Tensor, grad: Tensor) -> Iterator[Contender]:
    amax = x.abs().amax().float()
    scale = float(amax) / 127
    on_device = amax / 127, torch.zeros(1, dtype=torch.int32, device=x.device)
    enabled = torch.ones(1, dtype=torch.int64, device=x.device)
    scales = x.abs().amax((0, 2, 3)).float() / 127
    zeros = torch.zeros(CHANNELS, dtype=torch.int32, device=x.device)

    def per_tensor(t: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(t, scale, 0, -128, 127)

    def of_tensors() -> object:
        return torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, on_device[0].reshape(1), on_device[1], enabled, -128, 127
        )

    def per_channel(t: Tensor) -> Tensor:
        return torch.fake_quantize_per_channel_affine(t, scales, zeros, 1, -128, 127)

    def eager(t: Tensor) -> Tensor:
        return torch.clamp(torch.round(t / scale), -128, 127) * scale

    yield "torch, per-tensor", lambda: per_tensor(x)
    yield "torch, per-tensor, scale on the device", of_tensors
    yield "torch, per-channel", lambda: per_channel(x)
    yield "torch, forward + backward, per-tensor", forward_backward(x, grad, per_tensor)
    yield "torch, forward + backward, per-channel", forward_backward(x, grad, per_channel)
    yield "eager formula", lambda: eager(x)
    compiled = torch.compile(lambda t: eager(t.relu()))
    yield "compiled ReLU and eager formula", lambda: compiled(x)
    yield "torch.aminmax", lambda: torch.aminmax(x)
    yield "torch.histc", lambda: torch.histc(x.float(), 2048, 0, scale * 127)


def usable(contenders: Iterator[Contender]) -> list[Contender]:
    """Those that run, each warmed up."""
    result = []
    for name, call in contenders:
        try:
            for _ in range(3):
                call()
            torch.cuda.synchronize()
            result.append((name, call))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return result


def device_medians(contenders: list[Contender], repeats: int) -> dict[str, float]:
    """Milliseconds of each contender on the device."""
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {n: [] for n, _ in contenders}
    for _ in range(repeats):
        for name, call in contenders:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(PAUSE)
            start.record()
            call()
            end.record()
            events[name].append((start, end))
        torch.cuda.synchronize()
    return {n: statistics.median(s.elapsed_time(e) for s, e in pairs) for n, pairs in events.items()}


def host_microseconds(call: Callable[[], object], repeats: int) -> float:
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        torch.cuda.synchronize()
    return statistics.median(times) * 1e6


def run_times(megabytes: float, repeats: int) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        size = torch.empty(0, dtype=dtype).element_size()
        batch = max(1, round(megabytes * 1e6 / size / (CHANNELS * SIDE * SIDE)))
        x = torch.randn(batch, CHANNELS, SIDE, SIDE, device="cuda").to(dtype)
        grad, y = torch.randn_like(x), torch.empty_like(x)
        contenders: list[Contender] = [("copy_", lambda x=x, y=y: y.copy_(x))]
        contenders += usable(itertools.chain(ours(x, grad), peers(x, grad)))
        result = device_medians(contenders, repeats)
        again = device_medians(contenders[:2], repeats)
        small = x[:1, :, :4, :4].contiguous()
        other = small.clone()
        tiny = dict(usable(itertools.chain(ours(small, other), peers(small, other))))
        tiny["copy_"] = lambda s=small, t=other: t.copy_(s)
        rate = 2 * x.numel() * size / result["copy_"] / 1e6
        print(f"\n{x.numel() * size / 1e6:.0f} MB of {dtype}; copy_ moves {rate:.0f} GB/s")
        for name, milliseconds in result.items():
            host = f"{host_microseconds(tiny[name], 50):6.0f} us" if name in tiny else ""
            ratio = milliseconds / result["copy_"]
            second = f"  (again {again[name]:.3f})" if name in again else ""
            print(f"{name:42} {milliseconds:8.3f} ms {ratio:7.2f}x  host {host}{second}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=256)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--no-checks", action="store_true")
    parser.add_argument("--no-times", action="store_true")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py: no CUDA GPU here, want one; there is nothing to measure without it")
    import triton

    name, version = torch.cuda.get_device_name(), torch.version.cuda
    print(f"{name}, PyTorch {torch.__version__}, CUDA {version}, Triton {triton.__version__}", flush=True)
    failures = 0 if args.no_checks else run_checks()
    if not args.no_times:
        run_times(args.megabytes, args.repeats)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
