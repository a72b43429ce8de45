"""Mutated files by the thousand, in processes that may crash, hang or ask for too much memory.

    python -m tests.loaders.drive --seconds 60
    python -m tests.loaders.drive --count 10000 --kinds onnx plan --first 0

Every file has a number; the same number makes the same file while seeds and corpus stay. What is found is
written to --out, one file for each kind of fault and place, and named with the command that reads it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import multiprocessing
import os
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SECONDS = 10.0
"""That one file may take."""
MEMORY = 4 << 30
"""Bytes that a worker may have mapped for itself beyond what it has when it starts."""
CHUNK = 500
"""Files after which a worker is replaced, so that none carries over what another left."""


@dataclass
class Tally:
    """Counts of one kind in a run."""

    files: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)


def _work(pipe: Connection, kind: str, numbers: Sequence[int], memory: int) -> None:
    """Read these files one after the other; tell what each did."""
    from tests.loaders.entries import one as read_one
    from tests.loaders.seeds import make

    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + memory, mapped + memory))
    for number in numbers:
        data = make(kind, number)
        pipe.send((number, None, 0.0))
        start, fault = time.process_time(), ""
        try:
            read_one(kind, data)
        except BaseException as error:
            fault = _place(error)
        pipe.send((number, fault, time.process_time() - start))
    pipe.send((-1, "", 0.0))


def _place(error: BaseException) -> str:
    """The kind of an error, and the last place of ours that it came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/intact/" in f.filename]
    last = frames[-1] if frames else None
    where = f" at {last.filename.partition('/intact/')[2]}:{last.lineno}" if last else ""
    return f"{type(error).__name__}{where}: {str(error)[:120]}".replace("\n", " ")


def run(kind: str, numbers: Iterator[int], tally: Tally, out: Path, until: float) -> None:
    """Read files of one kind until they are used up, or until that time."""
    context = multiprocessing.get_context("fork")
    chunk: list[int] = []
    while time.monotonic() < until:
        chunk = chunk or [n for _, n in zip(range(CHUNK), numbers, strict=False)]
        if not chunk:
            break
        ours, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(theirs, kind, chunk, MEMORY), daemon=True)
        worker.start()
        theirs.close()
        last = _watch(worker, ours, kind, tally, out, until)
        chunk = chunk[chunk.index(last) + 1 :] if last in chunk else []


def _watch(worker: Any, pipe: Connection, kind: str, tally: Tally, out: Path, until: float) -> int:
    """The number of the last file that a worker read."""
    number, started, begun, waited = -1, False, 0.0, 0
    while True:
        if not pipe.poll(SECONDS if started else 60):
            if started and _cpu_seconds(worker.pid) - begun < SECONDS and (waited := waited + 1) < 6:
                continue  # a busy machine is no fault of the file
            fault, took = "hang", SECONDS
        else:
            try:
                number, fault, took = pipe.recv()
            except (EOFError, OSError):
                worker.join()
                fault, took = f"death {worker.exitcode}", 0.0
        if number == -1 and fault == "":
            worker.join()
            return -1
        if fault is None:
            started, begun, waited = True, _cpu_seconds(worker.pid), 0
            continue
        started = False
        _count(tally, kind, number, fault, took, out)
        if fault.startswith(("hang", "death")) or time.monotonic() > until:
            worker.kill()
            worker.join()
            return number


def _cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _count(tally: Tally, kind: str, number: int, fault: str, took: float, out: Path) -> None:
    from tests.loaders.seeds import make

    tally.files += 1
    tally.seconds += took
    tally.slowest = max(tally.slowest, took)
    if not fault and took > SECONDS:
        fault = "hang"
    if fault:
        key = fault.partition(": ")[0] if " at " in fault else fault
        tally.faults[key] += 1
        if tally.faults[key] == 1:
            data = make(kind, number)
            name = f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}"
            (out / name).write_bytes(data)
            print(f"FAULT {kind} {number} -> {out / name}: {fault}", flush=True)


def main() -> int:
    """Run; the exit status is 1 where something was found."""
    from tests.loaders.entries import ENTRIES
    from tests.loaders.seeds import good

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", nargs="*", default=list(ENTRIES), choices=list(ENTRIES))
    parser.add_argument("--seconds", type=float, default=0.0, help="of all kinds together; 0: no end")
    parser.add_argument("--count", type=int, default=0, help="files of each kind; 0: no end")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--new", action="store_true", help="begin at a number from the clock")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz-loaders"))
    inputs = parser.parse_args()
    inputs.out.mkdir(parents=True, exist_ok=True)
    faulthandler.disable()
    first = int(time.time() * 1000) if inputs.new else inputs.first
    result = 0
    for kind in inputs.kinds:
        tally = Tally()
        good(kind)  # made once, before workers are forked
        until = time.monotonic() + inputs.seconds / len(inputs.kinds) if inputs.seconds else float("inf")
        numbers = iter(range(first, first + inputs.count)) if inputs.count else count(first)
        run(kind, numbers, tally, inputs.out, until)
        print(f"{kind}: {tally.files:,} files from number {first} in {tally.seconds:.0f} s, "
              f"slowest {tally.slowest:.1f} s, {sum(tally.faults.values())} faults", flush=True)  # fmt: skip
        for fault, times in tally.faults.most_common():
            print(f"  {times} x {fault}", flush=True)
        result += len(tally.faults)
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
