"""An open plan has in memory what its runs read, and not the weights as the model has them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.capi.library import CPlan
from tests.capi.test_c_plans import save_plan
from tests.engine.conftest import Qdq

from intact.engine.files import container
from intact.engine.lower import lower


def resident_bytes(path: Path) -> int:
    """Bytes of a mapped file that this process has in memory."""
    total, is_file = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_file = line.endswith(str(path))
        elif is_file and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


@pytest.mark.skipif(not Path("/proc/self/smaps").is_file(), reason="Linux says what is in memory")
def test_weights_that_are_packed_are_not_in_memory_twice(c_library, tmp_path):
    net, width, layers = Qdq(), 384, 12
    x = net.pair(net.input("x", (1, width)))
    for _ in range(layers):
        product = net.node("Add", net.node("MatMul", x, net.weight(width, width, axis=1)), net.floats(width))
        x = net.pair(net.node("Relu", product))
    path = tmp_path / "model.plan"
    engine = save_plan(lower(net.proto(x)), path)
    arrays = {name: view.nbytes for name, view in container.read(path)[1].items()}
    weights = sum(
        size for name, size in arrays.items() if size > width * width // 2 and "packed/" not in name
    )
    assert weights >= layers * width * width, "the file has both forms"
    feeds = {"x": np.ones((1, width), np.float32)}
    opened = CPlan(c_library, path)
    (got,), (want,) = opened.run(feeds).values(), engine.run(feeds).values()
    np.testing.assert_array_equal(got, want)
    used = sum(arrays.values()) - weights
    assert used // 2 < resident_bytes(path) < used + 2**17
