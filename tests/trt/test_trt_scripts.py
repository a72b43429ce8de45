"""Scripts, modules and the processes that they start: each knows `tensorrt` and CUDA's Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = """
import multiprocessing
import subprocess
import sys
import tensorrt as trt
from cuda import cudart


def work(queue):
    import pycuda.driver as driver
    from cuda.bindings import runtime
    from tensorrt import Builder

    with Builder(trt.Logger(trt.Logger.ERROR)) as builder:
        network = builder.create_network(1)
    queue.put((type(network).__module__, runtime.cudaGetDeviceCount()[1], driver.Device.count()))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=120), flush=True)
    process.join()
    code = "import pycuda.autoinit, cuda.cudart, tensorrt; print(tensorrt.__intact__)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def python(*args: str | Path, folder: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = filter(None, [str(path or ""), os.environ.get("PYTHONPATH")])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, check=False, cwd=folder, env=env
    )


def test_new_processes_of_a_script_know_the_names(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WORKERS)
    done = python("-m", "intact.trt", "script.py", folder=tmp_path)
    assert done.stdout.splitlines() == ["('intact.trt.network.network_definition', 1, 1)", "True"], (
        done.stderr
    )


def test_libraries_that_look_for_the_names_find_them(tmp_path: Path) -> None:
    names = "tensorrt", "tensorrt.tensorrt", "cuda.bindings.runtime", "pycuda.driver"
    code = f"from importlib.util import find_spec\nprint(all(find_spec(name) for name in {names}))\n"
    (tmp_path / "asks.py").write_text(code)
    done = python("-m", "intact.trt", "asks.py", folder=tmp_path)
    assert done.stdout.strip() == "True", done.stderr


def test_a_module_runs_as_a_script_does(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    code = "import sys, tensorrt\nfrom . import other\nprint(tensorrt.__intact__, other.X, sys.argv[1:])\n"
    (tmp_path / "package" / "main.py").write_text(code)
    (tmp_path / "package" / "other.py").write_text("X = 3\n")
    done = python("-m", "intact.trt", "-m", "package.main", "--fast", folder=tmp_path)
    assert done.stdout == "True 3 ['--fast']\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "usage: python -m intact.trt script.py"), (("-m",), "usage: python -m intact.trt script.py"),
     (("absent.py",), "no file 'absent.py'")],
)  # fmt: skip
def test_usage(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = python("-m", "intact.trt", *arguments, folder=tmp_path)
    assert message in done.stderr and done.returncode == 1


def test_a_script_may_start_another_one(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text("import tensorrt, sys\nprint(tensorrt.__intact__, sys.argv[1])\n")
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'intact.trt', 'inner.py', 'x'])\n"
    (tmp_path / "outer.py").write_text(code)
    done = python("-m", "intact.trt", "outer.py", folder=tmp_path)
    assert done.stdout == "True x\n", done.stderr


def test_what_is_installed_is_not_shadowed_in_new_processes(tmp_path: Path) -> None:
    for name in ("cuda", "tensorrt"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text("WHOSE = 'theirs'\n")
    code = "import cuda, subprocess, sys\nprint(cuda.WHOSE, flush=True)\n"
    inner = "import cuda, tensorrt as t; print(cuda.WHOSE, t.__intact__)"
    code += f"subprocess.run([sys.executable, '-c', {inner!r}])\n"
    (tmp_path / "script.py").write_text(code)
    done = python("-m", "intact.trt", "script.py", folder=tmp_path, path=tmp_path / "cuda")
    assert done.stdout == "theirs\ntheirs True\n", done.stderr
    done = python("-m", "intact.trt", "script.py", folder=tmp_path, path=tmp_path / "tensorrt")
    assert done.returncode == 1 and "tensorrt, which is installed" in done.stderr
