"""Lists the names of TensorRT's Python bindings, and counts those that `intact.trt` lacks.

    python benchmarks/trt_bindings.py TensorRT/python            # a checkout's; counts what is missing
    python benchmarks/trt_bindings.py TensorRT/python --write    # stores the list that the tests read

The sources are read for what they bind: each class, each member, each enumeration and its values, by name.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import intact.trt as trt

LIST = Path(__file__).parents[1] / "tests" / "trt" / "bindings_11_1.txt"
HOLDER = re.compile(r'py::(?:class_|enum_)<[^;{}]*?>\s*(\w*)\s*[({]\s*(\w+),\s*"(\w+)"')
MEMBER = re.compile(r'(\b\w+)?\s*\.(?:def(?:_\w+)?|value|attr)\(\s*(?:"(\w+)")?')
MODULE = "tensorrt"


def names_in(folder: Path) -> dict[str, list[str]]:
    """Return the public names that the sources below `folder` bind, by class; MODULE holds the module's."""
    bound: dict[str, set[str]] = {MODULE: set()}
    for path in sorted((folder / "src").rglob("*.cpp")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        variables, current = {"m": MODULE}, MODULE
        marks = [*HOLDER.finditer(text), *MEMBER.finditer(text)]
        for mark in sorted(marks, key=lambda m: m.start()):
            if mark.re is HOLDER:
                variable, scope, name = mark.groups()
                owner = variables[scope]
                current = name if owner == MODULE else f"{owner}.{name}"
                bound[owner].add(name)
                bound.setdefault(current, set())
                variables[variable] = current
            else:
                variable, name = mark.groups()
                if variable in variables:
                    current = variables[variable]
                if name:
                    bound[current].add(name)
    return {holder: sorted(n for n in names if not n.startswith("_")) for holder, names in bound.items()}


def missing_from(names: dict[str, list[str]]) -> Iterator[str]:
    """Yield the names that `intact.trt` lacks in the dialect that is set."""
    for holder, members in names.items():
        kind = trt
        for part in holder.split(".") if holder != MODULE else ():
            kind = getattr(kind, part, None)
        yield from (f"{holder}.{name}" for name in members if not hasattr(kind, name))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder python of a checkout of TensorRT")
    parser.add_argument("--dialect", default="11.x", help="of intact.trt")
    parser.add_argument("--write", action="store_true", help="store the list")
    options = parser.parse_args()
    names = names_in(options.folder)
    if options.write:
        lines = (" ".join([holder, *members]) for holder, members in sorted(names.items()))
        LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    trt.set_dialect(options.dialect)
    lacking = list(missing_from(names))
    print(*lacking, sep="\n", end="\n" if lacking else "")
    print(f"{sum(map(len, names.values()))} names: {len(lacking)} missing")


if __name__ == "__main__":
    main()
