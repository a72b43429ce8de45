"""Describe the binary interface of the C library, and tell compatible changes of it from others.

    python -m tests.capi.abi          writes tests/capi/abi.txt anew

A line is a constant with its value, a struct with its size, a field with its type and place, or a function
or callback with its type. `include/intact.h` is read for the names, and a C compiler measures them.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "include" / "intact.h"
STORED = Path(__file__).with_suffix(".txt")


def _declarations(header: str) -> str:
    """The C declarations of a header, without comments and the preprocessor's lines."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"\\\n", "", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def _structs(declarations: str) -> dict[str, dict[str, str]]:
    """The types of the fields of every struct."""
    structs = {}
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", declarations, re.DOTALL):
        fields = re.findall(r"([^;]+?)(\w+)(\[\w+\])?;", body)
        structs[name] = {field: " ".join((kind + array).split()) for kind, field, array in fields}
    return structs


def describe(header: str, compiler: str) -> list[str]:
    """Describe the interface that a header declares.

    Args:
        header: Text of `intact.h`.
        compiler: A C compiler.

    Returns:
        Lines, in the header's order; of functions the name comes first.
    """
    declarations = _declarations(header)
    enums = re.findall(r"typedef enum \w+ \{(.*?)\}", declarations, re.DOTALL)
    constants = [name for body in enums for name in re.findall(r"\bINTACT_\w+", body)]
    constants += re.findall(r"^#define (INTACT_(?:API_VERSION|MAX_RANK)) ", header, re.MULTILINE)
    prints = [rf'printf("constant {name} = %d\n", (int){name});' for name in constants]
    for struct, fields in _structs(declarations).items():
        prints.append(rf'printf("struct {struct}: %zu bytes\n", sizeof({struct}));')
        for field, kind in fields.items():
            numbers = f"offsetof({struct}, {field}), sizeof((({struct}*)0)->{field})"
            prints.append(rf'printf("field {struct}.{field}: {kind} at %zu, %zu bytes\n", {numbers});')
    measured = _run_program("\n".join(prints), header, compiler).splitlines()
    functions = re.findall(r"INTACT_API ([\w\s*]+?)\b(intact_\w+)\(([^)]*)\);", declarations)
    callbacks = re.findall(r"typedef ([\w\s*]+?)\(\*(\w+)\)\(([^)]*)\);", declarations)
    return measured + [
        f"{what} {name}: {' '.join(kind.split())} ({_types(arguments)})"
        for what, typed in (("callback", callbacks), ("function", functions))
        for kind, name, arguments in typed
    ]


def _types(arguments: str) -> str:
    """The types of a function's arguments, without their names."""
    named = [" ".join(argument.split()) for argument in arguments.split(",")]
    return ", ".join(
        argument if argument == "void" else re.sub(r" ?\w+$", "", argument) for argument in named
    )


def _run_program(body: str, header: str, compiler: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "intact.h").write_text(header, encoding="utf-8")
        source, program = Path(folder, "abi.c"), Path(folder, "abi")
        source.write_text(
            f'#include <stdio.h>\n#include "intact.h"\nint main(void) {{\n{body}\nreturn 0;\n}}\n'
        )
        subprocess.run([compiler, "-std=c99", str(source), "-o", str(program)], check=True)
        return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def incompatible_changes(stored: list[str], current: list[str]) -> list[str]:
    """Return the stored lines that programs rely on and that no longer hold.

    New constants and functions are compatible, and so are fields behind the last one of a struct that begins
    with its size. INTACT_API_VERSION may grow.
    """
    grows = {_struct(line) for line in stored if re.match(r"field \w+\.size: size_t at 0,", line)}
    free = {f"struct {struct}" for struct in grows} | {"constant INTACT_API_VERSION"}
    present = set(current)
    gone = [line for line in stored if line not in present and _name(line) not in free]
    return gone + [line for line in _fields_within(stored, current) if _struct(line) in grows]


def _fields_within(stored: list[str], current: list[str]) -> list[str]:
    """Return the new fields that lie where a struct had bytes before."""
    sizes = {_struct(line): int(line.split()[2]) for line in stored if line.startswith("struct ")}
    names = {_name(line) for line in stored}
    added = [line for line in current if line.startswith("field ") and _name(line) not in names]
    return [line for line in added if int(line.split(" at ")[1].split(",")[0]) < sizes.get(_struct(line), 0)]


def _name(line: str) -> str:
    """Return the part that a line describes, such as "field intact_error.size"."""
    return re.split(" =|:", line)[0]


def _struct(line: str) -> str:
    """Return the struct of a line about one, or about a field of one."""
    return re.split(r"[ .:]", line)[1]


if __name__ == "__main__":
    STORED.write_text("\n".join(describe(HEADER.read_text(encoding="utf-8"), "cc")) + "\n", encoding="utf-8")
