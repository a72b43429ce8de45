"""Pages that repeat what the code says are written by a command; they are as it would write them today."""

from __future__ import annotations

import pytest
from tests.site import ROOT, written_pages


@pytest.mark.parametrize("page", [*written_pages.PAGES, *written_pages.PASSAGES])
def test_page_is_as_its_command_writes_it(page):
    assert written_pages.written(page) == (ROOT / page).read_text(encoding="utf-8"), (
        "run `make pages` and commit what it writes"
    )
