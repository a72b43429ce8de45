"""The registry, its environment variables, and what the compiled objects show to the linker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from intact import kernels
from intact.errors import IntactError
from intact.kernels import _native, registry

ROOT = Path(__file__).parents[2]
FAMILIES = set(
    re.findall(r"INTACT_FAMILY_FILE\((\w+)\)", (ROOT / "csrc/kernels/families.inc").read_text("utf-8"))
)


CHOSEN = """
import json
from intact import kernels
print(json.dumps([k.name for k in kernels.kernel_list() if k.chosen]))
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    other_variables = {name: value for name, value in os.environ.items() if not name.startswith("INTACT_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=other_variables | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_every_family_has_a_reference_that_runs_anywhere_and_one_choice():
    listed = kernels.kernel_list()
    assert {k.family for k in listed} == FAMILIES
    for family in FAMILIES:
        members = [k for k in listed if k.family == family]
        assert members[-1].name == f"{family}_ref" and members[-1].needs == () and members[-1].available
        assert sum(k.chosen for k in members) == 1
        assert next(k for k in members if k.available and not k.refused).chosen


def test_features_are_booleans_and_cover_what_kernels_need():
    features = kernels.cpu_features()
    assert {type(value) for value in features.values()} == {bool}
    assert {need for k in kernels.kernel_list() for need in k.needs} <= set(features)


def test_max_isa_none_leaves_the_references():
    done = run(CHOSEN, INTACT_MAX_ISA="none")
    assert json.loads(done.stdout) == [f"{family}_ref" for family in sorted(FAMILIES)], done.stderr


def test_a_forced_kernel_is_chosen_in_its_family_alone():
    free = json.loads(run(CHOSEN).stdout)
    forced = json.loads(run(CHOSEN, INTACT_FORCE_KERNEL="reduce_ref").stdout)
    assert forced == ["reduce_ref" if name.startswith("reduce") else name for name in free]


AMX, VNNI, REF = ("gemm", "gemm_amx", ["amx"]), ("gemm", "gemm_vnni", ["vnni"]), ("gemm", "gemm_ref", [])


@pytest.mark.parametrize(
    ("cpu_features", "grants", "forced", "chosen"),
    [
        pytest.param({"amx", "vnni"}, {"amx", "vnni"}, ["gemm_amx"], "gemm_amx", id="granted"),
        pytest.param({"amx", "vnni"}, {"vnni"}, ["gemm_amx"], "gemm_vnni", id="refused"),
        pytest.param({"amx"}, set(), ["gemm_amx"], "gemm_ref", id="refused, and there is no other"),
        pytest.param({"amx", "vnni"}, {"vnni"}, [], "gemm_vnni", id="the best is refused"),
        pytest.param({"amx", "vnni"}, {"amx", "vnni"}, [], "gemm_amx", id="the best"),
        pytest.param({"amx", "vnni"}, {"amx", "vnni"}, ["gemm_vnni"], "gemm_vnni", id="another is forced"),
        pytest.param({"vnni"}, {"amx", "vnni"}, ["gemm_amx"], None, id="the machine has none"),
    ],
)
def test_what_the_system_refuses_is_left_to_the_next_kernel(cpu_features, grants, forced, chosen):
    """Linux hands out AMX's tiles on request, and not to a process with a small signal stack."""
    rows = [(*row, cpu_features.issuperset(row[2])) for row in (AMX, VNNI, REF)]
    requests: list[str] = []

    def grant(needs) -> bool:
        requests.extend(needs)
        return grants.issuperset(needs)

    if chosen is None:
        with pytest.raises(IntactError, match="want one of gemm_vnni, gemm_ref"):
            registry.choose(rows, forced, grant)
    else:
        assert registry.choose(rows, forced, grant) == {"gemm": chosen}
    assert "amx" not in requests or forced != ["gemm_vnni"], (
        "it costs every signal its room: not without need"
    )


def test_the_system_grants_what_needs_no_asking():
    assert _native.acquire([]) and _native.acquire(["avx2", "neon"])


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "INTACT_FORCE_KERNEL",
            "absmax_sse9",
            r"INTACT_FORCE_KERNEL: got 'absmax_sse9', want one of .*reduce_ref.*\. Fix: name a kernel that "
            r"this machine has; `intact kernels` lists them",
        ),
        (
            "INTACT_MAX_ISA",
            "sse9",
            r"INTACT_MAX_ISA: got 'sse9', want one of none, avx2, avxvnni, avx512, amx, neon\. Fix: set it "
            r"to one of these, or unset it to use all that the machine has",
        ),
    ],
)
def test_a_value_that_cannot_be_met_is_refused_with_the_choices(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    for call in (kernels.kernel_list, lambda: kernels.absmax(np.ones(3))):
        with pytest.raises(IntactError) as raised:
            call()
        assert re.fullmatch(message, str(raised.value))


def test_forcing_what_the_permitted_isa_lacks_is_refused(monkeypatch):
    monkeypatch.setenv("INTACT_MAX_ISA", "none")
    monkeypatch.setenv("INTACT_FORCE_KERNEL", "reduce_avx2")
    with pytest.raises(IntactError, match="got 'reduce_avx2'"):
        kernels.kernel_list()


def test_the_native_module_refuses_what_the_face_would_not_send():
    x, scalar = np.ones(4, np.float32), np.ones(1, np.float32)
    bad = [
        ("no_such_kernel", "convert_ref", "float32", (1, 1, 1, 4), x, scalar),
        ("reduce_ref", "convert_ref", "float32", (1, 1, 1, 5), x, scalar),
        ("reduce_ref", "convert_ref", "float64", (1, 1, 1, 4), x, scalar),
        ("reduce_ref", "convert_ref", "int8", (1, 1, 1, 4), x, scalar),
        ("reduce_ref", "convert_ref", "float32", (1, 1, 4, 1), x, scalar),
    ]
    for arguments in bad:
        with pytest.raises(ValueError, match=r"."):
            _native.absmax(*arguments, 1)
    with pytest.raises(TypeError):
        _native.absmax("reduce_ref", "convert_ref", "float32", (1, 1, 1, 2), x[::2], scalar, 1)


def test_the_module_exports_its_entry_point_alone():
    if shutil.which("nm") is None or sys.platform != "linux":
        pytest.skip("needs nm and ELF")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True
    )
    symbols = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert {name for name in symbols if not name.startswith("_Z")} == {"PyInit__native"}
    assert not [name for name in symbols if "intact" in name]


def test_objects_of_an_instruction_set_share_no_code_with_others():
    """A weak function compiled for AVX2 could be the one the linker keeps for every machine.

    Functions that kernels of one register width share say which instructions they need.
    """
    built = ROOT.glob("build/*/CMakeFiles/intact_kernels.dir/csrc/kernels/*/x86_*.cc.o")
    # A build folder keeps the objects of sources that were renamed since.
    objects = sorted(o for o in built if (ROOT / "csrc/kernels" / o.parent.name / o.stem).is_file())
    if not objects or shutil.which("nm") is None:
        pytest.skip("needs nm and the objects of an in-tree build")
    for path in objects:
        listed = subprocess.run(["nm", "-C", str(path)], capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=2) if line[0] != " " else ["", *line.split(maxsplit=1)]
                for line in listed.splitlines()]  # fmt: skip
        strong = {name for _, kind, name in rows if kind in "TDRBG"}
        weak = {name for _, kind, name in rows if kind in "WVu"}
        assert not weak, path
        family = {f"intact::{k.name}" for k in kernels.kernel_list() if k.family == path.parent.name}
        shared = {name for name in strong if name.split("(")[0].endswith(("_avx2", "_avx512"))}
        assert strong & family, path
        assert strong <= family | shared, path


def test_headers_for_the_baseline_alone_have_no_anonymous_namespaces():
    """Kernels need them, for the reason in csrc/kernels/families.inc; elsewhere they copy each type."""
    rooms = ("bindings", "calibration", "runtime", "steps", "tensors")
    headers = [path for room in rooms for path in (ROOT / "csrc" / room).glob("*.h")]
    assert len(headers) > 50, "the walk finds the headers"
    assert [path.name for path in headers if re.search(r"^namespace \{", path.read_text("utf-8"), re.M)] == []
