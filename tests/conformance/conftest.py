"""What the guide's listings need: the library's own name, and everything they change put back."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

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
