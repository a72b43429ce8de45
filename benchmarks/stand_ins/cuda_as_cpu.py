"""A pytest plugin: who asks for a GPU gets the CPU, and who imports the toolkit gets `intact.torch`.

With ``INTACT_ORIGINAL=1`` in the environment the toolkit's own Python sources keep their name; their compiled
extension, which wants a CUDA compiler, is then a stand-in of PyTorch operators.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FACTORIES = (
    "arange",
    "empty",
    "eye",
    "full",
    "linspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "tensor",
    "zeros",
)


def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, told of the CPU where it is told of a GPU."""

    def read(value: Any) -> Any:
        is_gpu = isinstance(value, str | torch.device) and str(value).startswith("cuda")
        return torch.device("cpu") if is_gpu else value

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(kwargs.get("device"), int):  # the number of a GPU
            kwargs["device"] = torch.device("cpu")
        return function(*map(read, args), **{key: read(value) for key, value in kwargs.items()})

    return call


def read_as_cpu() -> None:
    for owner, names in ((torch, FACTORIES), (torch.Tensor, ("to",)), (torch.nn.Module, ("to",))):
        for name in names:
            setattr(owner, name, on_cpu(getattr(owner, name)))
    for owner in (torch.Tensor, torch.nn.Module):
        owner.cuda = lambda self, *_, **__: self
    default = torch.set_default_tensor_type
    torch.set_default_tensor_type = lambda kind: None if "cuda" in str(kind) else default(kind)
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.device = lambda *_: contextlib.nullcontext()
    torch.cuda.FloatTensor, torch.cuda.HalfTensor = torch.FloatTensor, torch.HalfTensor
    load = torch.load
    torch.load = lambda *args, **kwargs: load(*args, **{"map_location": "cpu", **kwargs})


def residual_networks() -> None:
    """`torchvision.models.resnet18`, its parameters by name, where torchvision has no build."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        path = Path(__file__).parents[2] / "examples" / "resnet.py"
        spec = importlib.util.spec_from_file_location("torchvision.models", path)
        models = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(models)
        package = types.ModuleType("torchvision")
        package.models = models
        sys.modules |= {"torchvision": package, "torchvision.models": models}


def extension_module() -> types.ModuleType:
    """`pytorch_quantization.cuda_ext` without a GPU: its two functions, of PyTorch operators."""

    def fake(x: torch.Tensor, amax: torch.Tensor, bits: int = 8, unsigned: bool = False, narrow: bool = True):
        bound = 2.0 ** (bits - 1 + unsigned) - 1
        scale = torch.where(
            amax.float() <= 1 / (1 << 24), torch.zeros_like(amax.float()), bound / amax.float()
        )
        low = 0.0 if unsigned else (-bound if narrow else -bound - 1)
        codes = torch.clamp((x.float() * scale).round(), low, bound)
        return torch.where(scale == 0, torch.zeros_like(codes), codes / torch.where(scale == 0, 1, scale)).to(
            x.dtype
        )

    def fake_with_axis(x, amax, axis, bits=8, unsigned=False, narrow=True):
        shape = [1] * x.dim()
        shape[axis] = -1
        return fake(x, amax.reshape(shape), bits, unsigned, narrow)

    result = types.ModuleType("pytorch_quantization.cuda_ext")
    result.fake_tensor_quant, result.fake_tensor_quant_with_axis = fake, fake_with_axis
    result.fake_tensor_quant_ = fake
    return result


def pytest_configure(config: Any) -> None:
    read_as_cpu()
    residual_networks()
    if os.environ.get("INTACT_ORIGINAL"):
        sys.modules["pytorch_quantization.cuda_ext"] = extension_module()
        sys.modules["cuda_ext"] = sys.modules["pytorch_quantization.cuda_ext"]
    else:
        import intact.torch

        intact.torch.alias(force=True)
