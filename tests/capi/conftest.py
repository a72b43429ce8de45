"""The C library of this build, or a skip that says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.capi.library import library_path


@pytest.fixture(scope="session")
def c_library() -> Path:
    """The shared library's path."""
    library = library_path()
    if library is None:
        pytest.skip(
            "the C library is not built: CMakeLists.txt says how, INTACT_LIBRARY may name another one"
        )
    return library
