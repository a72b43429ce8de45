"""`importlib.metadata` knows the packages that INTact stands in for, as long as it does."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys

import pytest

ASK = "from importlib.metadata import version; print(*map(version, {names}))"


def run(module: str, *names: str) -> str:
    """Return the metadata that a script run by `module` sees, and then those of a process that it starts."""
    ask = ASK.format(names=list(names))
    script = f"import subprocess, sys; exec({ask!r}); sys.stdout.flush(); "
    script += f"subprocess.run([sys.executable, '-c', {ask!r}], check=True)"
    code = f"import sys, runpy; sys.argv = ['-m', '-c']; {script}"
    prepare = f"import {module}.__main__ as tool, os, sys; folders = [str(f) for f in tool._prepare()]; "
    prepare += "os.environ['PYTHONPATH'] = os.pathsep.join([os.environ.get('PYTHONPATH', ''), *folders]); "
    done = subprocess.run([sys.executable, "-c", prepare + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_and_its_workers_find_the_versions_of_tensorrt_and_cuda() -> None:
    line = "10.9.0 2024.1.2 12.8.0\n"
    assert run("intact.trt", "tensorrt", "pycuda", "cuda-python") == 2 * line


def test_the_version_of_tensorrt_is_that_of_the_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTACT_TRT_DIALECT", "8.x")
    assert run("intact.trt", "tensorrt").splitlines()[0] == "8.6.1"


def test_a_package_is_found_by_both_of_its_names_while_its_alias_is_there() -> None:
    pytest.importorskip("torch")
    torch_face = importlib.import_module("intact.torch")
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("pytorch_quantization")
    torch_face.alias()
    try:
        for name in ("pytorch_quantization", "pytorch-quantization"):
            assert importlib.metadata.version(name) == torch_face.__version__
        assert importlib.util.find_spec("pytorch_quantization") is not None
        result = importlib.metadata.packages_distributions()["pytorch_quantization"]
        assert result == ["pytorch-quantization"]
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] == "pytorch_quantization"]:
            del sys.modules[name]
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("pytorch_quantization")


def test_every_stand_in_has_a_spec() -> None:
    ask = "import intact.trt.alias as a, importlib.util as u; a.alias(); print([n for n in ('tensorrt', "
    ask += "'tensorrt.tensorrt', 'cuda.cudart', 'cuda.bindings.runtime', 'pycuda.autoinit', 'pycuda.driver', "
    ask += "'pycuda.autoprimaryctx', 'pycuda.gpuarray') if u.find_spec(n) is None])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
