"""A few random modules; `python -m tests.fuzz.run_torch_nets` makes more."""

from __future__ import annotations

import pytest
from tests.fuzz.run_torch_nets import check_net
from tests.fuzz.torch_nets import make_net


@pytest.mark.parametrize("seed", [100, 102, 105, 110, 117, 120, 125, 131])
def test_module_and_engine_have_the_same_bits(seed: int) -> None:
    net = make_net(seed)
    status, message = check_net(net)
    assert status in ("equal", "said"), f"{message}\n{net.source}"
