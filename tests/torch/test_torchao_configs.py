"""torchao's configurations, read by their names and attributes."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
import torch
from torch import nn

import intact.torch
from intact.errors import QuantValueError, UnsupportedError
from intact.torch import BlockWeightLinear


class MappingType(Enum):
    SYMMETRIC = 1
    ASYMMETRIC = 3


def config(name: str, **attributes: Any) -> Any:
    """Return an object like torchao's."""
    return type(name, (), attributes)()


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 24, bias=False))


GROUP_64, ROW = config("PerGroup", group_size=64), config("PerRow", dim=-1)
CASES = [
    ("Int4WeightOnlyConfig", (4, 128, "float", True)),
    ("int8_dynamic_activation_int4_weight", (4, 32, "dynamic-int8", False)),
    (config("Int4WeightOnlyConfig", group_size=32), (4, 32, "float", True)),
    (config("Int8WeightOnlyConfig", group_size=None, granularity=ROW), (8, 128, "float", False)),
    (config("Int8WeightOnlyConfig", group_size=None, granularity=GROUP_64), (8, 64, "float", False)),
    (config("Int8DynamicActivationInt4WeightConfig", group_size=32, mapping_type=MappingType.SYMMETRIC,
            act_mapping_type=MappingType.ASYMMETRIC), (4, 32, "dynamic-int8", False)),
    (config("Int8DynamicActivationInt8WeightConfig", granularity=(ROW, ROW)),
     (8, 128, "dynamic-int8", False)),
    (config("Int8DynamicActivationIntxWeightConfig", weight_dtype=torch.int4, weight_granularity=GROUP_64,
            weight_mapping_type=MappingType.ASYMMETRIC), (4, 64, "dynamic-int8", True)),
    (config("IntxWeightOnlyConfig", weight_dtype=torch.int3, granularity=config("PerAxis", axis=0)),
     (3, 128, "float", False)),
]  # fmt: skip


@pytest.mark.parametrize(("configuration", "expected"), CASES, ids=lambda value: str(value)[:40])
def test_formats_blocks_and_activations(configuration: Any, expected: tuple[int, int, str, bool]) -> None:
    model, x = net(), torch.randn(3, 128)
    y = model(x)
    assert intact.torch.quantize_(model, configuration) is None
    first = model[0]
    has_points = first.zero_points is not None
    assert (first.bits, first.block, first.activations, has_points) == expected
    assert (model(x) - y).abs().max() < {8: 0.02, 4: 0.2, 3: 0.4}[first.bits] * y.abs().max()


def test_a_filter_chooses_layers() -> None:
    model = net()
    intact.torch.quantize_(model, "Int8WeightOnlyConfig", lambda module, path: path == "2")
    assert [type(module) for module in model] == [nn.Linear, nn.ReLU, BlockWeightLinear]


def test_what_it_refuses() -> None:
    with pytest.raises(UnsupportedError, match="Float8WeightOnlyConfig"):
        intact.torch.quantize_(net(), config("Float8WeightOnlyConfig"))
    with pytest.raises(UnsupportedError, match="weight_only_decode"):
        intact.torch.quantize_(
            net(), config("Int8DynamicActivationInt8WeightConfig", weight_only_decode=True)
        )
    with pytest.raises(UnsupportedError, match="granularity"):
        intact.torch.quantize_(net(), config("Int8WeightOnlyConfig", granularity=config("PerTensor")))
    with pytest.raises(QuantValueError, match="linear layer"):
        intact.torch.quantize_(nn.Linear(8, 8), "Int8WeightOnlyConfig")
    with pytest.raises(UnsupportedError, match="device"):
        intact.torch.quantize_(net(), "Int8WeightOnlyConfig", device="cuda")
