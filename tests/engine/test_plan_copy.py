"""A plan read into memory: the file may then be overwritten, shortened or removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import intact
from intact.engine.files import container
from intact.errors import FileFormatError


@pytest.fixture
def plan_path(qdq, lower_graph, tmp_path: Path) -> Path:
    net = qdq()
    y = net.pair(net.node("Relu", net.conv(net.pair(net.input("x", ("n", 3, 20, 20))), 3, 16)))
    plan = lower_graph(net, y, sizes={"n": 1}).plan
    intact.compile(plan, threads=1).save(tmp_path / "model.plan")
    return tmp_path / "model.plan"


@pytest.mark.parametrize("change", ["overwritten", "shortened"])
def test_an_engine_of_a_copy_outlives_what_happens_to_its_file(
    change: str, plan_path: Path, rng: np.random.Generator
) -> None:
    """Mapped, the weights change under the engine, or the process dies of SIGBUS."""
    x = rng.standard_normal((2, 3, 20, 20)).astype(np.float32)
    expected = intact.load(plan_path, threads=1)(x)
    engine = intact.load(plan_path, threads=1, copy=True)
    with plan_path.open("r+b") as file:
        if change == "overwritten":
            file.write(b"\xa5" * plan_path.stat().st_size)
        else:
            file.truncate(0)
    np.testing.assert_array_equal(engine(x), expected)


def test_a_copy_lies_as_kernels_want_it(plan_path: Path) -> None:
    arrays = container.read(plan_path, copy=True)[1]
    mapped = container.read(plan_path)[1]
    assert arrays.keys() == mapped.keys() and arrays
    for name, array in arrays.items():
        assert array.ctypes.data % container.ALIGNMENT == 0 and not array.flags.writeable
        np.testing.assert_array_equal(array, mapped[name])


def test_a_damaged_copy_is_refused_as_a_damaged_file_is(plan_path: Path) -> None:
    data = bytearray(plan_path.read_bytes())
    data[-100] ^= 1
    plan_path.write_bytes(data[:-64])
    with pytest.raises(FileFormatError):
        intact.load(plan_path, copy=True)
