"""The scripts on TensorRT's pages, read from the pages and run as they stand: they print what these show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intact.trt as trt

COOKBOOK = "reference/tensorrt_cookbook_quantize_dequantize_layer.md"
OPERATOR = "reference/tensorrt_operator_quantize.md"
NUMBER = re.compile(r"-?\d+\.\d*")
SECTIONS = ("first", "axis", "zero points")


def run_script(script: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "INTACT_TRT_DIALECT"}
    command = [sys.executable, "-m", "intact.trt", str(script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.shared
@pytest.mark.parametrize("section", range(len(SECTIONS)), ids=SECTIONS)
def test_the_cookbook_prints_the_matrices_of_its_page(section, shared_folder, tmp_path) -> None:
    page = (shared_folder / COOKBOOK).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    begin, first, end = re.split(r"^#-+ -+# .*\n", blocks[0], flags=re.MULTILINE)
    script = tmp_path / "listing.py"
    script.write_text(begin + (first if section == 0 else blocks[section]) + end, encoding="utf-8")
    done = run_script(script)
    assert done.returncode == 0 and not done.stderr, done.stderr
    printed = NUMBER.findall(done.stdout.partition("outputH0: (1, 3, 4, 5)")[2])
    matrices = re.findall(r"\\left\[\\begin\{matrix\}.*?\$\$", page.split("\n### ")[section + 1], re.DOTALL)
    shown = [NUMBER.findall(matrix)[:60] for matrix in matrices]
    assert printed in shown


@pytest.mark.shared
def test_the_cookbook_without_an_axis_has_the_errors_of_its_page(shared_folder, tmp_path) -> None:
    page = (shared_folder / COOKBOOK).read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    script = tmp_path / "listing.py"
    script.write_text(re.sub(r"^\w+\.axis = 0.*\n", "", code, flags=re.MULTILINE), encoding="utf-8")
    messages = re.findall(r"Internal Error \((.*)\)", page)
    assert len(messages) == 2
    errors = run_script(script).stderr
    assert all(message in errors for message in messages)


def run_network(network: trt.INetworkDefinition, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Build and run, with tensors by name."""
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    engine = builder.build_engine(network, builder.create_builder_config())
    feeds = {name: array.astype(np.float32).reshape(engine.get_tensor_shape(name))
             for name, array in inputs.items()}  # fmt: skip
    outputs: dict[str, np.ndarray] = engine.engine.run(feeds)
    return outputs


@pytest.mark.shared
@pytest.mark.parametrize("title", ["Quantize", "Block Quantization"])
def test_the_operator_page_has_its_own_results(title, shared_folder) -> None:
    page = (shared_folder / OPERATOR).read_text(encoding="utf-8").partition("Examples#\n")[2]
    listings = dict(
        re.findall(r"^(Quantize|Block Quantization)\n(in1 = .*?)^(?=Block|C\+\+)", page, re.M | re.S)
    )
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    names: dict[str, Any] = {"trt": trt, "np": np, "network": network}
    names |= {"inputs": {}, "outputs": {}, "expected": {}}
    exec(listings[title], names)
    results = run_network(network, names["inputs"])
    for name, wanted in names["expected"].items():
        assert results[name].shape == tuple(names["outputs"][name])
        assert np.abs(results[name].reshape(wanted.shape) - wanted).max() < 0.01  # printed with two digits
