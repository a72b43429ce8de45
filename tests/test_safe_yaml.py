"""YAML from strangers: what a kilobyte may stand for, and what it may not be."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from intact.errors import FileFormatError, QuantValueError
from intact.ptq.scope.settings import LayerSettings, with_override
from intact.safe_yaml import read_yaml

LISTS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join(['*' + before] * 9)}]\n"
    for before, c in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGES = "l0: &l0 {a: 1}\n" + "".join(f"l{i}: &l{i} {{<<: [*l{i - 1}, *l{i - 1}]}}\n" for i in range(1, 20))

REFUSED = {
    "aliases of aliases": (LISTS, "INTACT_LIMIT_YAML_NODES"),
    "merges of merges": (MERGES, "INTACT_LIMIT_YAML_NODES"),
    "an alias of itself": ("a: &a {b: *a}", "an alias of itself"),
    "lists in lists": ("[" * 20000, "INTACT_LIMIT_YAML_DEPTH"),
    "mappings in mappings": ("{a: " * 3000 + "1" + "}" * 3000, "INTACT_LIMIT_YAML_DEPTH"),
    "dashes": ("- " * 3000, "INTACT_LIMIT_YAML_DEPTH"),
    "indents": ("".join(" " * i + "a:\n" for i in range(100)), "INTACT_LIMIT_YAML_DEPTH"),
    "a long text": ("#" * (2**20 + 1), "INTACT_LIMIT_YAML_BYTES"),
    "a long value": ("a: " + "9" * 5000, "INTACT_LIMIT_YAML_CHARACTERS"),
    "a long number": ("a: " + "9" * 4000, "an integer of more than 64 bits"),
    "a number in base 60": ("a: 1" + ":00" * 1300, "an integer of more than 64 bits"),
    "a real in base 60": ("a: 1" + ":00" * 1300 + ".0", "too large"),
    "code": ("a: !!python/object/apply:os.system [ls]", "without tags"),
    "a set": ("a: !!set {b}", "without tags"),
    "two values": ("a: 1\na: 2", "more than one value for 'a'"),
    "no date": ("a: 2020-13-45", "month must be in"),
    "a key that is a list": ("{[a]: b}", "unhashable"),
    "no UTF-8": (b"\xff", "utf-8"),
    "two documents": ("a\n---\nb", "single document"),
    "half a list": ("a: [1", "want YAML"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_a_yaml_bomb_is_an_error(text: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        read_yaml(text, "file 'o.yaml'")
    assert str(caught.value).startswith("file 'o.yaml': got ") and len(str(caught.value)) < 500


HONEST = "a: &a {weights: int4, axis: -1}\n'b/*': {<<: *a, symmetric: yes}\nc: [1, 2.5, null, text]\nd: *a\n"


def test_an_honest_file_reads_as_ever() -> None:
    assert read_yaml(HONEST, "file") == yaml.safe_load(HONEST)


SETTINGS = {
    "block 1.5": ({"block_size": 1.5}, "block_size: got 1.5"),
    "block 0": ({"block_size": 0}, "block_size: got 0"),
    "block true": ({"block_size": True}, "block_size: got True"),
    "block huge": ({"block_size": 2**40}, "block_size"),
    "symmetric maybe": ({"symmetric": "maybe"}, "symmetric: got 'maybe'"),
    "symmetric 1": ({"symmetric": 1}, "got 1"),
    "symmetric none": ({"symmetric": None}, "symmetric: got None"),
    "axis text": ({"axis": "foo"}, "axis: got 'foo'"),
    "axis true": ({"axis": True}, "axis: got True"),
    "axis real": ({"axis": 1.0}, "axis: got 1.0"),
    "axis nan": ({"axis": float("nan")}, "axis: got nan"),
    "axis list": ({"axis": [0]}, r"axis: got \[0\]"),
    "axis huge": ({"axis": 2**62}, "axis: got"),
    "method list": ({"method": ["max"]}, "method: got"),
    "method none": ({"method": None}, "method: got None"),
    "format 8": ({"format": 8}, "format: got 8"),
    "format none": ({"activations": None}, "format: got None"),
    "weights list": ({"weights": ["int8"]}, "format: got"),
    "a key that is none": ({1: "int8"}, "got 1, want keys"),
    "no mapping": ("int8", "want a mapping"),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "message"), SETTINGS.values(), ids=SETTINGS)
def test_every_field_of_an_override_has_its_type(expected: Any, message: str) -> None:
    with pytest.raises(QuantValueError, match=message) as caught:
        with_override(LayerSettings(), "conv", expected)
    assert str(caught.value).startswith("overrides['conv']: ")
