"""Coverage-guided mutation of the files that are read, with Atheris (pip install atheris).

    python -m tests.loaders.guided onnx --seconds 600

The bytes that Atheris varies choose a good file and what is changed in it, so that checksums are right: what
its coverage rewards is a way through our code, not a way to a checksum. Inputs that reach something new are
kept in --corpus for the next run; a fault is written there as a file of its kind.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

import atheris

ROOM = "intact"
"""Package that is instrumented: ours alone."""


class Dice(random.Random):
    """Random numbers out of given bytes, and zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._bits = int.from_bytes(data, "little")
        self._left = 8 * len(data)

    def getrandbits(self, k: int) -> int:
        """The next `k` bits."""
        if self._left <= 0:
            return super().getrandbits(k)
        bits = self._bits & ((1 << k) - 1)
        self._bits >>= k
        self._left -= k
        return bits

    def random(self) -> float:
        """A number from 0 to 1 out of the next 16 bits."""
        return self.getrandbits(16) / 2**16


def main() -> None:
    """Run until the time is over or a fault is found."""
    from tests.loaders.entries import ENTRIES

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=list(ENTRIES))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz-guided"))
    inputs = parser.parse_args()
    with atheris.instrument_imports(include=[ROOM]):
        import intact.calib
        import intact.engine.lower
        import intact.placement  # noqa: F401
    from tests.loaders import entries, seeds

    place = inputs.corpus / inputs.kind
    place.mkdir(parents=True, exist_ok=True)
    good: list[Any] = seeds.good(inputs.kind)

    def one(data: bytes) -> None:
        dice = Dice(data)
        result = seeds.change(inputs.kind, dice, dice.choice(good))
        try:
            entries.one(inputs.kind, result)
        except Exception:
            fault = inputs.corpus / f"{inputs.kind}-{int(time.time())}"
            fault.write_bytes(result)
            print(f"FAULT {inputs.kind} -> {fault}", file=sys.stderr)
            raise

    limits = [f"-max_total_time={inputs.seconds}", "-timeout=10", "-rss_limit_mb=4096", "-max_len=512"]
    atheris.Setup([sys.argv[0], *limits, str(place)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
