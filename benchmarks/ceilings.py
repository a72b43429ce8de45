"""Measures the most products of bytes that one core can form, and how near models come.

    python benchmarks/ceilings.py [model.plan ...] [--isa avx2 avx512]

The ceiling of an instruction is what a loop of it reaches that reads registers alone: no row, no weight, no
epilogue. A program in C with one such loop is compiled with $CC (cc), and the fastest of 20 runs counts. For
each model: its products, the least time that they take at each ceiling if all are formed (Winograd filtering
forms fewer), and the engine's time kept to --isa, one thread. x86 alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import intact
from intact.cli.verbs.bench import Case, measure

CHAINS = 11
"""Independent sums: more than any of these instructions takes cycles. Registers from 11 on are operands."""
ESCAPES = str.maketrans({"%": "%%", "{": "%{", "}": "%}"})
"""Escapes that GCC reads as more than text."""
PROGRAM = r"""
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(void) {
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    volatile double start = now();
    for (long i = 0; i < 1000000; ++i) {
      __asm__ volatile(BODY ::: "memory");
    }
    const double seconds = now() - start;
    if (seconds < best) best = seconds;
  }
  printf("%.6f\n", 1000000 * PRODUCTS / best / 1e9);
  return 0;
}
"""


class Loop(NamedTuple):
    """`body`: instructions of one chain, {0} its register's number; `products`: of one time through it."""

    name: str
    flag: str  # of /proc/cpuinfo
    body: tuple[str, ...]
    products: int


LOOPS = (
    Loop("avx2, words, exact: vpmaddwd, vpaddd", "avx2",
         ("vpmaddwd %ymm14,%ymm15,%ymm13", "vpaddd %ymm13,%ymm{0},%ymm{0}"), 16),
    Loop("avx2, bytes, sums of pairs saturate: vpmaddubsw, vpmaddwd, vpaddd", "avx2",
         ("vpmaddubsw %ymm14,%ymm15,%ymm13", "vpmaddwd %ymm13,%ymm12,%ymm13",
          "vpaddd %ymm13,%ymm{0},%ymm{0}"), 32),
    Loop("avx2, bytes, 8 steps that fit 16 bits: 8 vpmaddubsw, 7 vpaddw, vpmaddwd, vpaddd", "avx2",
         ("vpmaddubsw %ymm14,%ymm15,%ymm13",
          *(("vpmaddubsw %ymm14,%ymm15,%ymm11", "vpaddw %ymm11,%ymm13,%ymm13") * 7),
          "vpmaddwd %ymm13,%ymm12,%ymm13", "vpaddd %ymm13,%ymm{0},%ymm{0}"), 8 * 32),
    Loop("avx-vnni: vpdpbusd, 256 bits", "avx_vnni", ("{{vex}} vpdpbusd %ymm14,%ymm15,%ymm{0}",), 32),
    Loop("avx512-vnni: vpdpbusd, 512 bits", "avx512_vnni", ("vpdpbusd %zmm30,%zmm31,%zmm{0}",), 64),
)  # fmt: skip


def ceiling(loop: Loop, folder: Path) -> float:
    """10^9 products a second."""
    lines = [line.format(chain) for chain in range(CHAINS) for line in loop.body]
    body = "".join(f'"{line.translate(ESCAPES)}\\n"' for line in lines)
    source, program = folder / "loop.c", folder / "loop"
    source.write_text(PROGRAM.replace("BODY", body).replace("PRODUCTS", f"{CHAINS * loop.products}.0"))
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-w", str(source), "-o", str(program)], check=True)
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def show(model: Path, ceilings: dict[str, float], isas: list[str]) -> None:
    products = sum(timing.macs for timing in intact.load(model, threads=1).profile(runs=1).timings) / 1e9
    print(f"\n{model.name}: {products:.2f} * 10^9 products")
    for name, most in ceilings.items():
        print(f"  {products / most * 1e3:8.2f} ms at least  {name}")
    cases = [Case("intact", model, sys.executable, (), isa) for isa in isas]
    for isa, result in zip(isas, measure(cases, rounds=3, threads=1, batch=1, seconds=0.5), strict=True):
        rate = products / result["ms"] * 1e3
        print(f"  {result['ms']:8.2f} ms           the engine, kept to {isa}: {rate:.0f} GMAC/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="*", help="plans, or files with Q/DQ pairs")
    parser.add_argument("--isa", nargs="+", default=["avx2", "avx512"], help="that the engine is kept to")
    args = parser.parse_args()
    flags = set(Path("/proc/cpuinfo").read_text().split())
    ceilings = {}
    with tempfile.TemporaryDirectory() as folder:
        for loop in LOOPS:
            if loop.flag in flags:
                ceilings[loop.name] = most = ceiling(loop, Path(folder))
                print(f"{most:8.1f} GMAC/s  {loop.name}", flush=True)
    for model in args.models:
        show(model, ceilings, args.isa)


if __name__ == "__main__":
    main()
