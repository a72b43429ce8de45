"""``dir`` of every module, class, enumeration and object lists what ``getattr`` gives, in both dialects."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import intact.trt as trt
from intact.trt.base import dialects
from intact.trt.base.removed_members import REMOVED

KINDS = {name: kind for name in trt.__all__ if isinstance(kind := getattr(trt, name), type)}
LAYERS = [kind for kind in KINDS.values() if issubclass(kind, trt.ILayer)]


@pytest.fixture(params=["8.x", "10.x"])
def dialect(request) -> Iterator[str]:
    trt.set_dialect(request.param)
    yield request.param
    dialects._chosen.clear()


def unreadable_names(target: Any) -> list[str]:
    """The names in `dir` that `getattr` refuses."""
    names = []
    for name in dir(target):
        try:
            getattr(target, name)
        except Exception:
            names.append(name)
    return names


def objects(log: trt.ILogger) -> Iterator[Any]:
    """An object of each class that scripts meet on their way to a run, and a layer of each kind."""
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (1, 3, 8, 8))
    pool = network.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2))
    network.mark_output(pool.get_output(0))
    yield from (
        builder,
        network,
        config,
        x,
        pool,
        network.get_layer(0),
        builder.create_optimization_profile(),
    )
    data = builder.build_serialized_network(network, config)
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(data)
    yield from (data, runtime, engine, engine.create_execution_context(), engine.create_engine_inspector())
    yield from (engine.create_runtime_config(), engine.create_serialization_config())
    yield from (trt.Refitter(engine, log), trt.OnnxParser(builder.create_network(), log), log)
    yield from (config.create_timing_cache(b""), trt.Dims(1, 2), trt.Weights(np.ones(2, np.float32)))
    yield from (network.add_loop(), network.add_if_conditional())
    yield network.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False)
    for kind in LAYERS:
        if kind.__name__ not in ("ILayer", "IOnnxLayer", "IPluginV2Layer", "IPluginV3Layer"):
            yield builder.create_network().add_layer(kind, (x, x, x))


def test_of_objects(dialect, log) -> None:
    wrong = {type(target).__name__: names for target in objects(log) if (names := unreadable_names(target))}
    assert wrong == {}


@pytest.mark.parametrize("name", KINDS)
def test_of_classes_and_enumerations(dialect, name) -> None:
    kind = KINDS[name]
    assert unreadable_names(kind) == []
    if issubclass(kind, trt.DataType.__mro__[1]):
        assert set(kind.__members__) < set(dir(kind))
        assert all(unreadable_names(member) == [] for member in kind)
    if name not in REMOVED:
        return
    removed = set(REMOVED[name])
    assert removed.isdisjoint(dir(kind)) if dialect == "10.x" else removed <= set(dir(kind))
    assert [n for n in removed if hasattr(kind, n)] == ([] if dialect == "10.x" else list(removed))
    assert removed.isdisjoint(n for n, _ in inspect.getmembers(kind)) == (dialect == "10.x")


MODULES = """
import importlib, sys
import intact.trt as trt
from intact.trt.alias import alias
trt.set_dialect(sys.argv[1])
alias()
names = ["intact.trt", "tensorrt", "tensorrt.tensorrt", "tensorrt.plugin", "cuda", "cuda.cudart",
         "cuda.cuda", "cuda.nvrtc", "cuda.bindings", "cuda.bindings.runtime", "cuda.bindings.driver",
         "cuda.bindings.nvrtc", "pycuda", "pycuda.driver", "pycuda.autoinit", "pycuda.gpuarray",
         "pycuda.tools"]
for name in names:
    module = importlib.import_module(name)
    listed = dir(module)
    print(name, [n for n in listed if not hasattr(module, n)], set(vars(module)) - set(listed))
    for kind in vars(module).values():
        if isinstance(kind, type):
            for n in dir(kind):
                assert hasattr(kind, n), (name, kind, n)
import tensorrt
print("version", "__version__" in dir(tensorrt), "__version__" in dir(trt), tensorrt.tensorrt.__version__)
"""


@pytest.mark.parametrize(("name", "version"), [("8.x", "8.6.1"), ("10.x", "10.9.0")])
def test_of_modules(name, version) -> None:
    done = subprocess.run([sys.executable, "-c", MODULES, name], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert all(line.endswith(" [] set()") for line in lines[:-1]) and len(lines) == 18, lines
    assert lines[-1] == f"version True True {version}"
