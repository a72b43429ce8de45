from __future__ import annotations

from pathlib import Path

import pytest

from intact.atomic import replacing


def test_a_whole_file_takes_the_name_of_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "model.bin"
    target.write_text("old")
    with replacing(str(target)) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old", "until the block ends"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_no_debris(tmp_path: Path) -> None:
    target = tmp_path / "model.bin"
    target.write_text("old")
    with pytest.raises(RuntimeError, match="half way"), replacing(target) as temporary:
        temporary.write_text("ne")
        raise RuntimeError("half way")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_was_never_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "model.bin"):
        pass
