"""Programs of an older header run with a newer library: its binary interface is the stored one."""

from __future__ import annotations

import ctypes as c
import re
import shutil
import subprocess

import pytest
from tests.capi import abi
from tests.capi.test_c_programs import COMPILER, needs_compiler

from intact.engine.compare import c_interface

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(c.sizeof(c.c_void_p) != 8, reason="the stored interface is one of 64 bits"),
]
HEADER = abi.HEADER.read_text(encoding="utf-8")
STORED = abi.STORED.read_text(encoding="utf-8").splitlines()


def test_the_interface_is_the_stored_one():
    current = abi.describe(HEADER, str(COMPILER))
    broken = abi.incompatible_changes(STORED, current)
    assert broken == [], "older programs would break: keep these, or raise SOVERSION in library.cmake"
    version = f"constant INTACT_API_VERSION = {c_version()}"
    assert current == STORED, (
        "a compatible change: raise INTACT_API_VERSION, and run python -m tests.capi.abi"
        if version in STORED
        else "run python -m tests.capi.abi"
    )


def c_version() -> int:
    """INTACT_API_VERSION of the header."""
    (version,) = re.findall(r"#define INTACT_API_VERSION (\d+)", HEADER)
    return int(version)


def test_the_library_exports_the_stored_functions(c_library):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is needed")
    listed = subprocess.run([nm, "-D", "--defined-only", str(c_library)], capture_output=True, text=True)
    functions = {line.split()[1].rstrip(":") for line in STORED if line.startswith("function ")}
    assert {line.split()[-1] for line in listed.stdout.splitlines()} == functions


CHANGES = {
    "a function that is gone": ("INTACT_API const char* intact_version(void);", "", True),
    "another argument": (
        "intact_selftest(intact_plan* plan, ",
        "intact_selftest(const intact_plan* plan, ",
        True,
    ),
    "another argument of a callback": ("void* job, int32_t index", "void* job, int64_t index", True),
    "a constant's value": ("INTACT_FLOAT64 = 11", "INTACT_FLOAT64 = 12", True),
    "a field between others": ("const char* kind;", "const char* kind; int32_t more[2]; ", True),
    "another type of the same size": ("int32_t is_codes;", "uint32_t is_codes;", True),
    "a field of a struct without size": ("} intact_shape;", "int64_t more; } intact_shape;", True),
    "a new function": ("/* Of the library", "INTACT_API int intact_new(void);\n/* Of the library", False),
    "a new constant": ("INTACT_DIFFERENT = 11 ", "INTACT_DIFFERENT = 11, INTACT_NEW = 12 ", False),
    "a field behind the last": ("} intact_step;", "const char* more; } intact_step;", False),
    "the next version": ("INTACT_API_VERSION 4", "INTACT_API_VERSION 5", False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_that_break_programs_are_told_from_others(change):
    old, new, breaks = CHANGES[change]
    assert HEADER.count(old) == 1
    current = abi.describe(HEADER.replace(old, new), str(COMPILER))
    assert current != STORED
    assert bool(abi.incompatible_changes(STORED, current)) is breaks


@pytest.mark.parametrize(
    "struct",
    ["CErrorText", "CMemory", "COptions", "CPort", "CShape", "CStep"],
    ids=lambda name: name[1:].lower(),
)
def test_ctypes_has_the_layout_of_the_header(struct):
    name = {"CErrorText": "intact_error"}.get(struct, f"intact_{struct[1:].lower()}")
    kind = getattr(c_interface, struct)
    assert f"struct {name}: {c.sizeof(kind)} bytes" in STORED
    places = {
        match[1]: (int(match[2]), int(match[3]))
        for line in STORED
        if (match := re.match(rf"field {name}\.(\w+): .* at (\d+), (\d+) bytes", line))
    }
    fields = [name for name, *_ in kind._fields_]
    assert {name: (getattr(kind, name).offset, getattr(kind, name).size) for name in fields} == places
