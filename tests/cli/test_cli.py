"""The command as a user types it: text, files and exit statuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import intact
from intact import kernels
from intact.calib import Calibration
from intact.cli import app


@pytest.fixture
def calib_file(tmp_path: Path, rng: np.random.Generator) -> Path:
    calibration = Calibration()
    calibration.collect("conv1.input", rng.standard_normal(3000).astype(np.float32))
    calibration.collect("conv2.input", rng.uniform(0, 4, (2, 900)).astype(np.float32), axis=0)
    calibration.record(source="two random tensors", batches=1)
    calibration.save(tmp_path / "model.calib")
    return tmp_path / "model.calib"


def test_version(run) -> None:
    assert run("--version") == (0, f"intact {intact.__version__}\n", "")


VERBS = [*app.VERBS, *(f"{group} {verb}" for group, (_, verbs) in app.GROUPS.items() for verb in verbs)]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_examples(run, verb: str) -> None:
    *group, name = verb.split()
    status, out, _ = run(*group, name, "--help")
    assert status == 0
    assert "Examples" in out and f"intact {verb}" in out
    assert name in run(*group, "--help")[1]


def test_kernels_lists_every_kernel_of_the_build(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTACT_FORCE_KERNEL", raising=False)
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    status, out, _ = run("kernels")
    assert status == 0
    rows = {line.split("│")[2].strip(): line for line in out.splitlines() if line.startswith("│")}
    assert set(rows) == {kernel.name for kernel in kernels.kernel_list()}
    assert all("*" in line for name, line in rows.items() if name.endswith("_ref")), (
        "nothing above it may run"
    )
    assert "INTACT_MAX_ISA=none" in out


def test_kernels_that_the_system_refuses_say_so_and_what_runs_instead(run, monkeypatch) -> None:
    refused = kernels.Kernel("gemm", "gemm_amx", ("amx",), True, chosen=False, refused=True)
    instead = kernels.Kernel("gemm", "gemm_vnni", ("vnni",), True, chosen=True)
    monkeypatch.setattr(kernels, "kernel_list", lambda: [refused, instead])
    status, out, _ = run("kernels")
    output = " ".join(out.split())
    assert status == 0 and "refused by the system" in output
    assert (
        "gemm_amx: the operating system does not grant amx" in output and "gemm_vnni runs instead" in output
    )


def test_report_writes_a_page_of_every_histogram(run, calib_file: Path, tmp_path: Path) -> None:
    status, out, _ = run("report", calib_file, "--out", tmp_path / "page.html", "--format", "int4")
    assert status == 0 and f"wrote {tmp_path / 'page.html'}" in out
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for shown in ("conv1.input", "conv2.input", "int4 per-channel(axis=0)", "two random tensors"):
        assert shown in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "int99"), "intact: format: got 'int99', want intN or uintN"),
        (("--percentile", "101"), "intact: tensor 'conv1.input': percentile: got 101"),
        (("--out", "nowhere/page.html"), "intact: 'nowhere/page.html': got no folder '"),
    ],
    ids=["format", "percentile", "folder"],
)
def test_a_users_mistake_is_one_line_and_status_2(run, calib_file: Path, words, message: str) -> None:
    status, _, err = run("report", calib_file, *words)
    assert status == 2
    assert err.startswith(message)
    assert "Traceback" not in err


def test_a_damaged_file_is_one_line_and_status_2(run, calib_file: Path) -> None:
    calib_file.write_bytes(calib_file.read_bytes()[:-7])
    status, _, err = run("report", calib_file)
    assert status == 2
    assert err.startswith("intact: file '") and err.count("\n") == 1
