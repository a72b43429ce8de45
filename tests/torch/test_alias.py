"""Files written for pytorch_quantization run unchanged, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
import torch
import pytorch_quantization
from pytorch_quantization import calib, quant_modules, tensor_quant
from pytorch_quantization import nn as quant_nn
import pytorch_quantization.nn.functional
import pytorch_quantization.optim.helper
from pytorch_quantization import utils as quant_utils
from pytorch_quantization.calib.histogram import HistogramCalibrator
from pytorch_quantization.nn.modules import _utils
from pytorch_quantization.nn.modules.tensor_quantizer import TensorQuantizer
from pytorch_quantization.tensor_quant import QuantDescriptor
from pytorch_quantization.utils.reduce_amax import reduce_amax
import intact.torch

assert pytorch_quantization is intact.torch and calib is intact.torch.calib
assert TensorQuantizer is quant_nn.TensorQuantizer is intact.torch.nn.TensorQuantizer
assert pytorch_quantization.__version__.startswith("2.2.1")
assert __name__ == "__main__"
quant_modules.initialize()
assert type(torch.nn.Linear(2, 2)) is quant_nn.QuantLinear
print(*sys.argv[1:], sys.path[0] == sys.argv[0].rpartition("/")[0])
"""

ORIGINAL = "__version__ = 'the original'\n"


def python(*args: str | Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(path)} if path else None
    return subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, check=False, env=env
    )


def test_an_unmodified_script_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = python("-m", "intact.torch", script, "--lr", "0.1")
    assert (done.stdout, done.returncode) == ("--lr 0.1 True\n", 0), done.stderr


def test_usage() -> None:
    assert "usage: python -m intact.torch script.py" in python("-m", "intact.torch").stderr
    assert "no file 'absent.py'" in python("-m", "intact.torch", "absent.py").stderr


@pytest.mark.parametrize("imported", [False, True], ids=["installed", "imported"])
def test_the_original_is_not_shadowed_unless_forced(imported: bool, tmp_path: Path) -> None:
    (tmp_path / "pytorch_quantization.py").write_text(ORIGINAL)
    first = "import pytorch_quantization\n" if imported else ""
    code = f"""{first}import intact.torch, intact.errors
try:
    intact.torch.alias()
except intact.errors.IntactError as error:
    print(error)
intact.torch.alias(force=True)
intact.torch.alias()
import pytorch_quantization
print(pytorch_quantization is intact.torch)
"""
    done = python("-c", code, path=tmp_path)
    word = "already imported" if imported else "installed"
    assert f"got the original pytorch_quantization, {word}, want" in done.stdout, done.stderr
    assert done.stdout.endswith("True\n")


def test_without_torch_the_error_names_the_extra(tmp_path: Path) -> None:
    code = """import sys
sys.modules["torch"] = None
try:
    import intact.torch
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = python("-c", code)
    assert done.stdout.startswith("MissingExtraError intact.torch: got no package 'torch'"), done.stderr
    assert "pip install 'intact-quant[torch]'" in done.stdout


WORKERS = """
import multiprocessing
import sys

from pytorch_quantization import cuda_ext, version


def work(queue):
    from pytorch_quantization.nn import QuantLinear

    queue.put(QuantLinear.__module__)


if __name__ == "__main__":
    import subprocess

    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=120), flush=True)
    process.join()
    code = "import pytorch_quantization; print(pytorch_quantization.__name__)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_new_processes_of_a_script_know_the_old_name(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WORKERS)
    done = python("-m", "intact.torch", script)
    assert done.stdout.splitlines() == ["intact.torch.nn.modules.quant_linear", "intact.torch"], done.stderr


def test_a_module_runs_as_a_script_does(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(
        "import sys, pytorch_quantization as p\nprint(p.__name__, sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "intact.torch", "-m", "trainer", "--lr"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "intact.torch ['--lr']\n", done.stderr
