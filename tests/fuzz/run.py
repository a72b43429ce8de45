"""`make fuzz`: new random graphs over the cores for a while; failures become files that `corpus` can keep.

    python -m tests.fuzz.run --seconds 60             # new seeds; the first one is printed
    python -m tests.fuzz.run --base 1234 --graphs 1   # one seed again

Cases run in processes of their own, whose memory is capped: a crash or a hang is a finding with a seed.
"""

from __future__ import annotations

import argparse
import collections
import os
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

MEMORY = 6 << 30
PIECE = 25
"""Seeds that a worker gets at once."""


@dataclass
class Total:
    """Results of a run."""

    graphs: int = 0
    runs: int = 0
    compared: int = 0
    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def add(
        self, seed: int, status: str, message: str, runs: int, compared: int, kinds: frozenset[str]
    ) -> None:
        """Count one case."""
        self.graphs += 1
        self.runs += runs
        self.compared += compared
        self.statuses[status] += 1
        self.kinds.update(kinds)
        if status not in ("ok", "invalid"):
            self.failures[seed] = f"{status}: {message}"


def outcome_of(
    seed: int, steps: list[int] | None = None, off: frozenset[str] = frozenset()
) -> tuple[Any, ...]:
    """(status, message, runs, compared, kinds) of a case; whatever is raised is a finding."""
    from tests.fuzz.check import check
    from tests.fuzz.graphs import make

    try:
        findings = check(make(seed, steps=steps, off=off), seed)
    except MemoryError:
        return "fault", f"more than {MEMORY >> 30} GB of memory", 0, 0, frozenset()
    except Exception as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place is not None else ""
        return "fault", f"{type(error).__name__}: {error} ({where})", 0, 0, frozenset()
    return findings.status, findings.message, findings.runs, findings.compared, findings.kinds


def _work(pipe: Connection, off: frozenset[str]) -> None:
    """A worker: seeds come in, outcomes go out, one after the other."""
    import warnings

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (seeds := pipe.recv()) is not None:
        for seed in seeds:
            pipe.send((seed, None))
            pipe.send((seed, outcome_of(seed, off=off)))
        pipe.send((None, None))


class Worker:
    """A process that checks seeds, and what it is at."""

    def __init__(self, off: frozenset[str]) -> None:
        self.pipe, other = Pipe()
        self.process = Process(target=_work, args=(other, off), daemon=True)
        self.process.start()
        other.close()
        self.at: int | None = None
        self.since = time.monotonic()
        self.left: list[int] = []

    def give(self, seeds: list[int]) -> None:
        """Hand over seeds."""
        self.left = list(seeds)
        self.since = time.monotonic()
        self.pipe.send(seeds)

    def stop(self) -> None:
        """End it."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


def fuzz(
    seeds: Iterator[int], *, jobs: int, until: float, patience: float, off: frozenset[str], say: Any
) -> Total:
    """Check seeds until there are no more, or until a time."""
    total = Total()
    workers = [Worker(off) for _ in range(jobs)]
    idle = set(range(jobs))
    while True:
        for i in sorted(idle):
            piece = (
                [] if time.monotonic() >= until else [s for _, s in zip(range(PIECE), seeds, strict=False)]
            )
            if piece:
                workers[i].give(piece)
                idle.discard(i)
        if len(idle) == jobs:
            break
        ready = wait([w.pipe for i, w in enumerate(workers) if i not in idle], timeout=1.0)
        for i, worker in enumerate(workers):
            if i in idle:
                continue
            gone = _receive(worker, total, say) if worker.pipe in ready else ""
            if not gone and time.monotonic() - worker.since > patience:
                gone = f"hangs for more than {patience:g} s"
            if gone == "done":
                idle.add(i)
            elif gone:
                _replace(workers, i, gone, total, off, say, idle)
    for worker in workers:
        worker.stop()
    return total


def _receive(worker: Worker, total: Total, say: Any) -> str:
    """Take what a worker has to say; "done", or why it is gone."""
    try:
        while worker.pipe.poll():
            seed, result = worker.pipe.recv()
            worker.since = time.monotonic()
            if seed is None:
                return "done"
            worker.at = seed
            if result is not None:
                worker.left.remove(seed)
                worker.at = None
                total.add(seed, *result)
                if seed in total.failures:
                    say(f"seed {seed}: {total.failures[seed]}")
    except (EOFError, ConnectionError):
        worker.process.join()
        return f"ends with status {worker.process.exitcode}"
    return ""


def _replace(
    workers: list[Worker], i: int, why: str, total: Total, off: frozenset[str], say: Any, idle: set[int]
) -> None:
    """Another process in the place of one that is gone; it goes on behind the seed that did it."""
    old = workers[i]
    old.stop()
    if old.at is not None:
        old.left.remove(old.at)
        total.add(old.at, "fault", f"the process {why}", 0, 0, frozenset())
        say(f"seed {old.at}: {total.failures[old.at]}")
    workers[i] = Worker(off)
    if old.left:
        workers[i].give(old.left)
    else:
        idle.add(i)


def minimize(seed: int, off: frozenset[str], patience: float) -> list[int]:
    """The fewest steps of a seed's graph that fail in the same way, each left out once."""
    from tests.fuzz.graphs import make

    steps = list(range(len(make(seed, off=off).log)))
    kind = _apart(seed, steps, off, patience)
    for step in reversed(steps.copy()):
        fewer = [s for s in steps if s != step]
        if _apart(seed, fewer, off, patience) == kind:
            steps = fewer
    return steps


def _apart(seed: int, steps: list[int], off: frozenset[str], patience: float) -> str:
    """The kind of outcome of a case in a process of its own: a crash ends that one alone."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.run", "--one", str(seed)]
    command += ["--steps", ",".join(map(str, steps)) or "none", *(f"--off={name}" for name in sorted(off))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience + 10, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    output = done.stdout.strip().splitlines()
    return output[-1][:24] if output and done.returncode == 0 else f"status {done.returncode}"


def keep(seed: int, steps: list[int], folder: Path, off: frozenset[str]) -> Path:
    """Write a case as a file; `corpus/` takes it as it is."""
    from tests.fuzz.graphs import make

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}.onnx"
    path.write_bytes(make(seed, steps=steps, off=off).file_bytes())
    return path


def _report(total: Total, base: int, seconds: float) -> None:
    from tests.fuzz.check import THREADS
    from tests.kernel_paths import kernel_paths

    kinds = ", ".join(f"{name} {n}" for name, n in total.kinds.most_common())
    print(f"graphs with steps of each kind: {kinds}")
    chosen = [" ".join(f"{k}={v}" for k, v in variant.items()) or "default" for variant in kernel_paths()]
    print(f"kernels: {'; '.join(chosen)}; and a mixture by chance; threads {', '.join(map(str, THREADS))}")
    print(
        f"{total.graphs} random graphs from seed {base} in {seconds:.0f} s: "
        + ", ".join(f"{n} {status}" for status, n in sorted(total.statuses.items()))
        + f"; {total.runs} runs of an engine, {total.compared} tensors compared with ONNX Runtime"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="how long; default: as long as --graphs takes, or 60")
    parser.add_argument("--graphs", type=int, help="how many at most")
    parser.add_argument("--base", type=int, help="the first seed; default: by chance")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where failing cases go")
    parser.add_argument("--hang", type=float, default=10.0, help="seconds for one graph")
    parser.add_argument(
        "--off", action="append", default=[], help="leave out a feature of tests.fuzz.graphs.FEATURES"
    )
    parser.add_argument("--one", type=int, help="check this seed here and say what becomes of it")
    parser.add_argument("--steps", default="", help="with --one: which of its steps, such as 0,2; none")
    return parser.parse_args()


def main() -> int:
    """The exit status: 1 where a case failed."""
    inputs = _arguments()
    off = frozenset(inputs.off)
    if inputs.one is not None:
        steps = [int(s) for s in inputs.steps.split(",") if s.isdecimal()] if inputs.steps else None
        status, message, *_ = outcome_of(inputs.one, steps, off)
        print(f"{status}: {message}")
        return 0
    base = secrets.randbelow(10**9) * 1000 if inputs.base is None else inputs.base
    seconds = inputs.seconds or (60.0 if inputs.graphs is None else 1e9)
    seeds = iter(range(base, base + (inputs.graphs or 10**9)))
    print(f"fuzzing from seed {base}: python -m tests.fuzz.run --base {base} does it again", flush=True)
    began = time.monotonic()

    def say(text: str) -> None:
        print(text, flush=True)

    total = fuzz(seeds, jobs=inputs.jobs, until=began + seconds, patience=inputs.hang, off=off, say=say)
    _report(total, base, time.monotonic() - began)
    for seed in list(total.failures)[:20]:
        path = keep(seed, minimize(seed, off, inputs.hang), inputs.out, off)
        print(
            f"kept {path}: {total.failures[seed][:200]}; again: python -m tests.fuzz.run --one {seed}",
            flush=True,
        )
    return 1 if total.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
