"""Scripts of TensorRT 8 and 10, rewritten for 11: parsed, never run."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from intact.errors import FileFormatError
from intact.trt.migration import edit_project
from intact.trt.migration.script_edits import edit_script
from intact.trt.migration.source_text import write_patch

HEAD = "import tensorrt as trt\n"


def rewrite(body: str, **options: object) -> str:
    """Return the text of a script behind its first line, rewritten."""
    edit = edit_script((HEAD + body).encode(), "s.py", "model.qdq.onnx", **options)
    ast.parse(edit.new)
    text = edit.new.decode()
    assert text.startswith(HEAD)
    return text[len(HEAD) :]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("config.set_flag(trt.BuilderFlag.INT8)\nx = 1\n", "x = 1\n"),
        ("config.set_flag(trt.BuilderFlag.REFIT)\n", "config.set_flag(trt.BuilderFlag.REFIT)\n"),
        ("if int8:\n    config.set_flag(trt.BuilderFlag.INT8)\n", "if int8:\n    pass\n"),
        ("if a: config.set_flag(trt.BuilderFlag.FP16)\n", "if a: pass\n"),
        ("a = 1; config.set_flag(trt.BuilderFlag.FP16); b = 2\n", "a = 1; pass; b = 2\n"),
        ("config.flags |= 1 << int(trt.BuilderFlag.INT8)\ny = 2\n", "y = 2\n"),
        (
            "config.flags = 1 << int(trt.BuilderFlag.INT8) | 1 << int(trt.BuilderFlag.REFIT)\n",
            "config.flags = 1 << int(trt.BuilderFlag.REFIT)\n",
        ),
        ("on = config.get_flag(trt.BuilderFlag.INT8)\n", "on = False\n"),
        (
            "flags = {'int8': trt.BuilderFlag.INT8, 'refit': trt.BuilderFlag.REFIT}\n",
            "flags = {'refit': trt.BuilderFlag.REFIT}\n",
        ),
        (
            "config.max_workspace_size = 1 << 30  # 1 GiB\n",
            "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)  # 1 GiB\n",
        ),
        ("builder.max_workspace_size = 1 << 30\nz = 3\n", "z = 3\n"),
        ("builder.max_batch_size = 8\nz = 3\n", "z = 3\n"),
        ("t.dynamic_range = (-1, 1)\nz = 3\n", "z = 3\n"),
        ("t.set_dynamic_range(-1, 1)\nz = 3\n", "z = 3\n"),
        ("layer.precision = trt.float32\nz = 3\n", "z = 3\n"),
        ("self.precision = args.precision\n", "self.precision = args.precision\n"),
        ("layer.set_output_type(0, trt.int8)\nz = 3\n", "z = 3\n"),
        ("config.set_calibration_profile(p)\nz = 3\n", "z = 3\n"),
        ("if builder.platform_has_fast_int8:\n    z = 3\n", "if True:\n    z = 3\n"),
        (
            "n = builder.create_network()\n",
            "n = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))\n",
        ),
        (
            "n = builder.create_network(1)\n",
            "n = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))\n",
        ),
        (
            "n = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))\n",
            "n = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))\n",
        ),
        (
            "e = builder.build_engine(network, config)\n",
            "e = trt.Runtime(builder.logger).deserialize_cuda_engine("
            "builder.build_serialized_network(network, config))\n",
        ),
        (
            "c = CreateConfig(int8=True, calibrator=calib, profiles=p)\n",
            "c = CreateConfig(profiles=p)\n",
        ),
    ],
)
def test_what_tensorrt_11_removed_is_rewritten(before: str, after: str) -> None:
    assert rewrite(before) == after


def test_a_calibrator_and_all_that_serves_it_are_taken_out() -> None:
    before = (
        "from batches import Batcher\n"
        "\n"
        "class Calibrator(trt.IInt8EntropyCalibrator2):\n"
        "    def get_batch(self, names):\n"
        "        return None\n"
        "\n"
        "def build(int8):\n"
        "    calib = None\n"
        "    if int8:\n"
        "        calib = Calibrator()\n"
        "        calib.set_batcher(Batcher())\n"
        "        config.int8_calibrator = calib\n"
        "        config.int8_calibrator.prepare()\n"
        "    return make(calibrator=Calibrator())\n"
    )
    assert rewrite(before) == (
        "\n"
        "def build(int8):\n"
        "    calib = None\n"
        "    if int8:\n"
        "        calib = None\n"
        "    return make(calibrator=None)\n"
    )


def test_names_of_the_float_file_become_those_of_the_other() -> None:
    assert rewrite('p = "models/net.onnx"\nq = "net.onnx"\n', onnx="net.onnx") == (
        "p = 'models/model.qdq.onnx'\nq = 'model.qdq.onnx'\n"
    )


def test_what_needs_a_human_is_listed_with_its_line() -> None:
    edit = edit_script((HEAD + "n = engine.num_bindings\n").encode(), "s.py", "q.onnx")
    assert edit.new == edit.old
    assert [(p.line, p.what, p.advice) for p in edit.open_points] == [
        (2, "num_bindings", "use num_io_tensors")
    ]


@pytest.mark.parametrize("text", ["def f(:\n", "print 'old'\n", "\udc80"])
def test_text_that_python_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match="a script of Python 3"):
        edit_script(text.encode("utf-8", "surrogateescape"), "s.py", "q.onnx")


def test_places_count_bytes_and_every_kind_of_line_end() -> None:
    body = (
        "s = 'äß→'\r\nconfig.set_flag(trt.BuilderFlag.INT8)  # ü\r\nt = 'ö'; config.int8_calibrator = c\r\n"
    )
    assert rewrite(body) == "s = 'äß→'\r\nt = 'ö'; pass\r\n"


def project(folder: Path) -> Path:
    """Write a script and the module of its calibrator; importing either would leave a file."""
    touch = "open('touched', 'w').close()\n"
    (folder / "calib.py").write_text(
        f"import tensorrt as trt\n{touch}\n\nclass Mine(trt.IInt8MinMaxCalibrator):\n    pass\n\n\nSIZE = 3\n"
    )
    script = folder / "build.py"
    script.write_text(
        f"import tensorrt as trt\nfrom calib import Mine, SIZE\n{touch}"
        "config.int8_calibrator = Mine()\nprint(SIZE)\n"
    )
    return script


def test_modules_beside_the_script_are_part_of_the_patch_and_nothing_runs(tmp_path: Path) -> None:
    script = project(tmp_path)
    edits = edit_project(script, "q.onnx", "")
    assert not (tmp_path / "touched").exists()
    assert {edit.name for edit in edits} == {"build.py", "calib.py"}
    patch = tmp_path / "p.patch"
    patch.write_text("".join(write_patch(edit.old, edit.new, edit.name) for edit in edits))
    subprocess.run(["patch", "-p1", "-s", "-i", str(patch)], cwd=tmp_path, check=True)
    for edit in edits:
        assert (tmp_path / edit.name).read_bytes() == edit.new
    assert "Mine" not in script.read_text() and "from calib import SIZE" in script.read_text()


def test_modules_in_a_folder_above_that_is_on_the_path_are_part_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "sample"
    folder.mkdir()
    flag = "1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)\n"
    (tmp_path / "common.py").write_text(f"{HEAD}FLAG = {flag}")
    script = folder / "build.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(1, os.path.join(here, os.pardir))\nimport common\n{HEAD}"
    )
    (edit,) = edit_project(script, "q.onnx", "")
    assert edit.name == "common.py" and b"STRONGLY_TYPED" in edit.new
    script.write_text(f"import common\n{HEAD}")
    assert edit_project(script, "q.onnx", "") == []


def test_a_patch_of_a_file_without_a_last_line_end_applies(tmp_path: Path) -> None:
    old, new = b"a\nb", b"a\nc"
    (tmp_path / "f.py").write_bytes(old)
    (tmp_path / "p").write_text(write_patch(old, new, "f.py"))
    subprocess.run(["patch", "-p1", "-s", "-i", "p"], cwd=tmp_path, check=True)
    assert (tmp_path / "f.py").read_bytes() == new


def test_a_network_of_layers_is_parsed_from_the_file_instead(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(HEAD + "def go():\n    return builder.build_serialized_network(network, config)\n")
    (edit,) = edit_project(script, "q.onnx", "", is_parsed=False)
    assert "    qdq_parser = trt.OnnxParser(network, builder.logger)\n" in edit.new.decode()
    compile(edit.new, "s.py", "exec")
    assert sys.version_info  # the script itself never ran


@pytest.mark.parametrize(
    "line",
    ["config.set_flag(trt.BuilderFlag.FP16)", "builder.fp16_mode = True", "c = CreateConfig(fp16=True)",
     "config.flags |= 1 << int(trt.BuilderFlag.FP16)"],
)  # fmt: skip
def test_a_flag_of_float16_is_named_with_what_takes_its_place(line: str) -> None:
    edit = edit_script(f"import tensorrt as trt\n{line}\n".encode(), "build.py", "q.onnx")
    assert line not in edit.new.decode()
    (point,) = edit.open_points
    assert point.line == 2 and "float16 with AutoCast" in point.advice
