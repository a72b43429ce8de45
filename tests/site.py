"""The program that writes pages of docs/, which stands beside them and in no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
_found = importlib.util.spec_from_file_location("written_pages", ROOT / "docs" / "site" / "written_pages.py")
assert _found is not None
assert _found.loader is not None
written_pages = importlib.util.module_from_spec(_found)
_found.loader.exec_module(written_pages)
