"""Fixtures for the guide's listings: the library's own name, and everything they change put back."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def old_name() -> Iterator[None]:
    """`pytorch_quantization` means `intact.torch`; torch.nn, defaults and the switch are put back after."""
    import intact.torch
    from intact.torch import nn as quant_nn

    defaults = {cls: cls.default_quant_desc_input for cls in (quant_nn.QuantConv2d, quant_nn.QuantLinear)}
    intact.torch.alias()
    yield
    intact.torch.deactivate()
    quant_nn.TensorQuantizer.use_fb_fake_quant = False
    for cls, desc in defaults.items():
        cls.set_default_quant_desc_input(desc)
    for name in [n for n in sys.modules if n.split(".")[0] == "pytorch_quantization"]:
        del sys.modules[name]


@pytest.fixture
def example() -> Callable[[str], types.ModuleType]:
    """A function that imports a file of examples/ afresh."""

    def load(name: str) -> types.ModuleType:
        spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


# What the cookbook's three listings print, one channel of 4 x 5 values per line.
COOKBOOK = {
    "per_tensor": """
0 2 4 6 8 11 13 15 17 19 21 23 25 28 30 32 34 36 38 40
42 44 47 49 51 53 55 57 59 61 63 66 68 70 72 74 76 78 80 83
85 87 89 91 93 95 97 99 102 104 106 108 110 112 114 116 119 121 123 125
""",
    "per_axis": """
0 2 4 6 8 11 13 15 17 19 21 23 25 28 30 32 34 36 38 40
21 22 23 24 25 26 28 29 30 31 32 33 34 35 36 37 38 39 40 41
21 22 22 23 23 24 24 25 25 26 26 27 28 28 29 29 30 30 31 31
""",
    "zero_points": """
0 6 13 19 25 32 38 44 51 57 64 70 76 83 89 95 102 108 114 121
64 67 70 73 76 79 83 86 89 92 95 98 102 105 108 111 114 117 121 124
85 87 89 91 93 95 97 99 102 104 106 108 110 112 114 116 119 121 123 125
""",
}


@pytest.fixture
def listing_values() -> Callable[[str], np.ndarray]:
    """A function that gives a listing's printed values, [1, 3, 4, 5]."""
    return lambda name: np.array(COOKBOOK[name].split(), int).reshape(1, 3, 4, 5)
