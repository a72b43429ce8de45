"""Registers this package as ``tensorrt``, with host-memory stand-ins for CUDA's Python packages."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from intact import trt
from intact.errors import UnsupportedError
from intact.standins import StandInDistribution, register_distribution
from intact.trt.base.dialects import VERSIONS
from intact.trt.base.module_names import TrtModule, visible_names
from intact.trt.host import cudart, driver, nvrtc, polygraphy, pycuda_driver, pycuda_gpuarray, pycuda_tools
from intact.trt.plugins.plugin_decorators import PluginModule

CUDA_PYTHON, PYCUDA = "12.8.0", "2024.1.2"
"""The versions whose functions the stand-ins have."""
STANDINS = Path(__file__).with_name("standins")
"""A folder for each name, with a module of that name for processes in which nobody calls `alias`."""


def alias(*, force: bool = False) -> None:
    """Register ``tensorrt``, ``cuda`` and ``pycuda``, so that unmodified scripts import them from here.

    ``cuda`` and ``pycuda`` are those that are installed, where they are. Polygraphy, which loads CUDA's
    library itself, gets host memory.

    Args:
        force: Take the place of a TensorRT that is installed, too.
    Raises:
        UnsupportedError: TensorRT is installed, and `force` is not given.
    """
    tensorrt_module = sys.modules.get("tensorrt")
    ours = _is_ours("tensorrt")
    if not force and not ours and (tensorrt_module is not None or _is_installed("tensorrt")):
        raise UnsupportedError(
            "alias", "tensorrt, which is installed", "none", "uninstall it, or call alias(force=True)"
        )
    names = {name: getattr(trt, name) for name in vars(trt)["__all__"]}
    inner = _module("tensorrt.tensorrt", __getattr__=trt.__getattr__, **names)
    outer = _module("tensorrt", tensorrt=inner, __getattr__=trt.__getattr__, __intact__=True, **names)
    for module in (inner, outer):
        module.__dict__["__dir__"] = partial(_names_in, module)
    sys.modules["tensorrt"].plugin = sys.modules["tensorrt.plugin"] = quick = PluginModule()  # type: ignore[attr-defined]
    quick.__spec__ = ModuleSpec("tensorrt.plugin", None, is_package=True)
    quick.__path__ = []  # a package, as TensorRT's: who asks for its parts finds none
    _stand_in("cuda", cudart=cudart, cuda=driver, nvrtc=nvrtc)
    _stand_in("cuda.bindings", runtime=cudart, driver=driver, nvrtc=nvrtc)
    auto = ModuleType("pycuda.autoinit")
    auto.__dict__.update(context=pycuda_driver.Context(), device=pycuda_driver.Device())
    primary = ModuleType("pycuda.autoprimaryctx")
    primary.__dict__.update(auto.__dict__)
    polygraphy.install()
    _stand_in(
        "pycuda", driver=pycuda_driver, autoinit=auto, autoprimaryctx=primary, gpuarray=pycuda_gpuarray,
        tools=pycuda_tools,
    )  # fmt: skip
    _register_distributions()


def _register_distributions() -> None:
    """Answer `importlib.metadata` for the three packages; each version is one whose members are there."""
    versions = {
        "tensorrt": ("tensorrt", lambda: VERSIONS[trt.get_dialect()]),
        "cuda-python": ("cuda", lambda: CUDA_PYTHON), "pycuda": ("pycuda", lambda: PYCUDA),
    }  # fmt: skip
    for name, (module, version) in versions.items():
        active = partial(_is_ours, module)
        register_distribution(StandInDistribution(name, module, version, active))


def _stand_in(name: str, **modules: Any) -> None:
    """Register a package of stand-in modules under `name`, unless the real package is installed."""
    root = name.partition(".")[0]
    if not _is_ours(root) and _is_installed(root):
        return
    package = _module(name, __intact__=True, **modules)
    for part, module in modules.items():
        if module.__spec__ is None:  # or `find_spec` raises
            module.__spec__ = ModuleSpec(f"{name}.{part}", None)
        sys.modules[f"{name}.{part}"] = module
    if "." in name:
        setattr(sys.modules[root], name.partition(".")[2], package)


def standins() -> list[Path]:
    """Return the folders of the names that `alias` registered."""
    return [STANDINS / name for name in ("tensorrt", "cuda", "pycuda") if _is_ours(name)]


def _is_ours(root: str) -> bool:
    return getattr(sys.modules.get(root), "__intact__", False) is True


def _is_installed(root: str) -> bool:
    """Return whether a package of that name is installed that is not one of `STANDINS`."""
    loaded = sys.modules.get(root)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(root)
    if spec is None:
        return loaded is not None
    if spec.origin is None:  # a folder without __init__.py: one beside a script, or CUDA's
        return any((Path(folder) / "bindings").is_dir() for folder in spec.submodule_search_locations or ())
    return STANDINS not in Path(spec.origin).parents


def _names_in(module: ModuleType) -> list[str]:
    return visible_names({*vars(module), "__version__"})


def _module(name: str, **content: Any) -> ModuleType:
    module = (TrtModule if name.startswith("tensorrt") else ModuleType)(name, f"INTact in place of {name}.")
    module.__path__, module.__file__ = [], trt.__file__
    module.__spec__ = ModuleSpec(name, None, is_package=True)  # torch and others ask find_spec what is there
    module.__dict__.update(content)
    sys.modules[name] = module
    return module
