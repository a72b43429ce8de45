"""The folder for results that can be made again, which the next process of a user finds."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """Return the folder ``intact/name`` in the user's cache folder; it may not be there."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "intact" / name
