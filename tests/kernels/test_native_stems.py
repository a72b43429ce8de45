"""A native step has the stem of its kind in every folder, and one list names them all."""

from __future__ import annotations

import re
from pathlib import Path

from intact.engine.steps import KINDS
from intact.kernels import _native

ROOT = Path(__file__).parents[2]
STEPS, BINDINGS = ROOT / "csrc/steps", ROOT / "csrc/bindings/steps"
LIST_FILE = (STEPS / "steps.inc").read_text("utf-8")
LIST = re.findall(r"^INTACT_(?:ENGINE_)?STEP\((\w+)\)", LIST_FILE, re.MULTILINE)
ALONE = re.findall(r"^INTACT_STEP\((\w+)\)", LIST_FILE, re.MULTILINE)
"""Those that Python can make alone."""
SHARED = {
    "attention", "cache_write", "copy", "depthwise", "dynamic_depthwise", "fill", "float_attention", "halo",
    "winograd",
}  # fmt: skip
"""Native steps that serve several kinds, or one in a special case; steps.inc says which."""


def stems(folder: Path, suffix: str) -> list[str]:
    return sorted(path.stem for path in folder.glob(f"*{suffix}"))


def test_the_list_names_what_the_folders_hold() -> None:
    assert sorted(LIST) == LIST and len(set(LIST)) == len(LIST)
    assert stems(STEPS, ".cc") == stems(STEPS, ".h") == LIST
    assert stems(BINDINGS, ".cc") == ALONE


def test_a_native_step_is_named_by_its_kind() -> None:
    assert set(LIST) - KINDS.keys() == SHARED


def test_every_native_step_has_a_maker_of_its_name() -> None:
    makers = {name.removeprefix("step_") for name in dir(_native) if name.startswith("step_")}
    pools = {"max_pool", "float_max_pool", "mean_pool"}  # three makers of one kind
    assert makers - pools == set(ALONE) - {"pool"}
