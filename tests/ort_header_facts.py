"""Compare csrc/onnxruntime/ort_api.h with ONNX Runtime's own headers; run by hand.

    python tests/ort_header_facts.py FOLDER    the folder with onnxruntime_c_api.h and onnxruntime_ep_c_api.h

Positions, versions, results and parameter types of functions, layouts of tables, numbers of enumerations.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FACTS = (ROOT / "csrc/onnxruntime/ort_api.h", ROOT / "tests/capi/run_ep_context.cc")
"""Files that name functions of ONNX Runtime by position."""
HEADERS = ("onnxruntime_c_api.h", "onnxruntime_ep_c_api.h", "onnxruntime_error_code.h")
"""Those of a release: between releases, what is new still moves. The last one is there since 1.30."""

TABLES = {"INTACT_ORT_API": "OrtApi", "INTACT_ORT_EP_API": "OrtEpApi", "INTACT_ORT_PROGRAM_API": "OrtApi"}
"""ONNX Runtime's table by the macro that lists some of its functions."""
LAYOUTS = {
    "INTACT_ORT_NODE_COMPUTE_INFO": "OrtNodeComputeInfo", "INTACT_ORT_EP": "OrtEp",
    "INTACT_ORT_EP_FACTORY": "OrtEpFactory",
}  # fmt: skip
"""The table that a plug-in fills in, by the macro that lists all its fields."""
UNUSED = "void()"
"""Signature of fields that stay null."""

_ANNOTATION = re.compile(r"\b_(?:In|Out|Inout|Outptr|Frees)\w*_(?:\s*\([^()]*\))?")


@dataclass(frozen=True)
class Function:
    """A function of a table.

    Attributes:
        name: Of the field.
        signature: Result and types of parameters, without spaces.
        version: Minor version of ONNX Runtime that brought it; None where nobody says.
    """

    name: str
    signature: str
    version: int | None = None


def compare(facts: str, headers: str) -> list[str]:
    """List the differences between our facts and ONNX Runtime's headers, a sentence each.

    Args:
        facts: Text of our files.
        headers: Text of ONNX Runtime's headers.
    """
    differences = []
    for macro, table in TABLES.items():
        differences += _compare_positions(table, list(_functions_of_macro(facts, macro)), headers)
    for macro, table in LAYOUTS.items():
        differences += _compare_layout(table, list(_fields_of_macro(facts, macro)), headers)
    for name, numbers in _enumerations(facts).items():
        theirs = _enumerations(headers).get(name, {})
        differences += [
            f"{name}: {key} is {number} here, {theirs.get(key)} there"
            for key, number in numbers.items() if theirs.get(key) != number
        ]  # fmt: skip
    return differences


def _compare_positions(table: str, listed: list[tuple[int, Function]], headers: str) -> Iterator[str]:
    members = _members(headers, table)
    if not members:
        yield f"{table}: not in the headers"
        return
    for position, ours in listed:
        theirs = members[position] if position < len(members) else Function("nothing", "")
        if ours.name != theirs.name:
            index = next((i for i, member in enumerate(members) if member.name == ours.name), None)
            yield f"{table}: {position} is {theirs.name}, want {ours.name}, which is {index}"
        elif ours.signature != theirs.signature:
            yield f"{table}: {ours.name} is {theirs.signature} there, {ours.signature} here"
        elif theirs.version not in (None, ours.version):
            yield f"{table}: {ours.name} is there since 1.{theirs.version}, not 1.{ours.version}"


def _compare_layout(table: str, fields: list[Function], headers: str) -> Iterator[str]:
    members = _members(headers, table)[1:]  # behind ort_version_supported
    if len(members) < len(fields):
        yield f"{table}: {len(members)} fields there, {len(fields)} here"
    for ours, theirs in zip(fields, members, strict=False):
        same = ours.signature in (UNUSED, theirs.signature)
        if ours.name != theirs.name or not same:
            yield f"{table}: {theirs.name} {theirs.signature} there, {ours.name} {ours.signature} here"


def _macro_body(text: str, macro: str) -> str:
    begin = re.search(rf"#define {macro}\(\w+\)", text)
    if begin is None:
        return ""
    lines = text[begin.end() :].split("\n")
    last = next(i for i, line in enumerate(lines) if not line.rstrip().endswith("\\"))
    return " ".join(line.rstrip("\\ ") for line in lines[: last + 1])


def _functions_of_macro(text: str, macro: str) -> Iterator[tuple[int, Function]]:
    for arguments in _calls(_macro_body(text, macro), "FUNCTION"):
        position, version, result, name, parameters = arguments
        yield int(position), Function(name, _signature(result, parameters[1:-1], named=False), int(version))


def _fields_of_macro(text: str, macro: str) -> Iterator[Function]:
    for result, name, parameters in _calls(_macro_body(text, macro), "FIELD"):
        yield Function(name, _signature(result, parameters[1:-1], named=False))


def _calls(text: str, macro: str) -> Iterator[list[str]]:
    """Yield the arguments of each use of a macro."""
    for match in re.finditer(rf"\b{macro}\(", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield _split(text[match.end() : end - 1])


def _split(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    pieces, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]


def _signature(result: str, parameters: str, *, named: bool) -> str:
    types = [_type_of(text, named) for text in _split(_ANNOTATION.sub("", parameters)) if text.strip()]
    if types == ["void"]:
        types = []
    return "".join(f"{result}({','.join(types)})".split())


def _type_of(parameter: str, named: bool) -> str:
    parameter = re.sub(r"\b(?:enum|struct)\b", "", parameter).strip()
    if "(*" in parameter:  # a function
        return re.sub(r"\(\*\s*\w+\)", "(*)", parameter)
    return re.sub(r"(?<=[\s*&])\w+$", "", parameter) if named else parameter


def _members(headers: str, struct: str) -> list[Function]:
    """List the fields of a struct, in order."""
    begin = re.search(rf"^struct {struct} \{{", headers, re.MULTILINE)
    if begin is None:
        return []
    body = headers[begin.end() : headers.index("\n};", begin.end())]
    members, version, declaration = [], None, ""
    for token in re.split(r"(/\*.*?\*/|//[^\n]*|;)", body, flags=re.DOTALL):
        if token.startswith("/*"):
            since = re.search(r"since\s+Version\s+1\.(\d+)", token)
            version = int(since[1]) if since else version
        elif token == ";":
            members.append(_member(" ".join(declaration.split()), version))
            version, declaration = None, ""
        elif not token.startswith("//"):
            declaration += re.sub(r"^#.*$", "", token, flags=re.MULTILINE)
    return members


def _member(declaration: str, version: int | None) -> Function:
    if match := re.match(r"ORT_CLASS_RELEASE\((\w+)\)", declaration):
        return Function(f"Release{match[1]}", f"void(Ort{match[1]}*)", version)
    for macro, result in (("ORT_API2_STATUS", "OrtStatus*"), ("ORT_API_T", "")):
        if declaration.startswith(macro):
            (arguments,) = _calls(declaration, macro)
            result, name, *parameters = [*([result] if result else []), *arguments]
            return Function(name, _signature(result, ",".join(parameters), named=True), version)
    if match := re.match(r"(.+?)\(\s*ORT_API_CALL\s*\*\s*(\w+)\s*\)\s*\((.*)\)", declaration):
        return Function(match[2], _signature(match[1], match[3], named=True), version)
    return Function(declaration.split()[-1], "", version)


def _enumerations(text: str) -> dict[str, dict[str, int]]:
    """Read the numbers of every enumeration by its name."""
    enumerations = {}
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    for name, body in re.findall(r"\benum (\w+) \{(.*?)\}", plain, re.DOTALL):
        numbers, number = dict[str, int](), 0
        for entry in filter(None, (entry.strip() for entry in body.split(","))):
            key, _, value = (side.strip() for side in entry.partition("="))
            number = int(value, 0) if re.fullmatch(r"-?\w+", value) and value[-1].isdigit() else number
            numbers[key] = number
            number += 1
        enumerations[name] = numbers
    return enumerations


def main(folder: Path) -> int:
    """Print the differences; returns the exit status."""
    facts = "\n".join(path.read_text(encoding="utf-8") for path in FACTS)
    paths = [folder / name for name in HEADERS if (folder / name).exists()]
    headers = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    differences = compare(facts, headers)
    print("\n".join(differences) or "the facts are those of the headers")
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
