"""Records of measurements are refused where a bit of them flipped, and read where they had no digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from intact.errors import FileFormatError
from intact.timings import Timings
from intact.tuning.tune_record import TuneRecord


def timings(path: Path) -> None:
    Timings({"m": {"a": 1.5, "b": 2.0}}).save(path)


def record(path: Path) -> None:
    written = TuneRecord(path)
    written.latencies("m")["s"] = 0.25
    written.study("k").numbers("n", lambda: {"error": 0.125})


@pytest.mark.parametrize(("write", "read"), [(timings, Timings.load), (record, TuneRecord)])
def test_a_flipped_bit_is_refused_or_says_the_same(tmp_path: Path, write, read) -> None:
    path = tmp_path / "record.json"
    write(path)
    data = path.read_bytes()
    read(path)
    for at in range(8 * len(data)):
        changed = data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]
        if changed.split() == data.split():
            continue
        path.write_bytes(changed)
        with pytest.raises(FileFormatError, match=r"record\.json"):
            read(path)


def test_records_without_a_digest_are_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"format": "intact-timings", "version": 1, "machines": {"m": {"a": 1.5}}}')
    assert Timings.load(path).machines == {"m": {"a": 1.5}}
    path.write_text('{"version": 1, "latencies": {"m": {"s": 0.25}}, "studies": {"k": {"n": {"e": 0.5}}}}')
    assert TuneRecord(path).study("k").numbers("n", dict) == {"e": 0.5}
