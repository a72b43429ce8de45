"""Settings and tokenizers of saved language models are refused where a bit of them flipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bit_flips import bit_flips
from tests.lm.small_decoders import byte_tokenizer, write_folder

from intact import lm
from intact.errors import FileAccessError, FileFormatError
from intact.lm.saved_folder import SETTINGS, TOKENIZER, keep_verification, read_settings, saved_description

FLIPS = 300


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tokenizers")
    folder = write_folder("llama", tmp_path_factory.mktemp("llama"))
    byte_tokenizer().save(str(folder / TOKENIZER))
    lm.save(lm.load(folder, weights="int4", block=16, threads=1), folder / "saved")
    return folder / "saved"


@pytest.mark.parametrize("name", [SETTINGS, TOKENIZER])
def test_a_flipped_bit_is_refused_by_name(saved_model: Path, name: str) -> None:
    data = (saved_model / name).read_bytes()
    try:
        for changed in bit_flips(data, FLIPS):
            (saved_model / name).write_bytes(changed)
            if changed.split() == data.split():  # white space between JSON values
                continue
            with pytest.raises(FileFormatError, match=name):
                lm.load(saved_model, threads=1)
    finally:
        (saved_model / name).write_bytes(data)
    assert lm.load(saved_model, threads=1).generate("abc", max_tokens=2)


def test_a_missing_tokenizer_is_noticed(saved_model: Path) -> None:
    (saved_model / TOKENIZER).rename(saved_model / "elsewhere")
    try:
        with pytest.raises(FileAccessError, match=TOKENIZER):
            lm.load(saved_model, threads=1)
    finally:
        (saved_model / "elsewhere").rename(saved_model / TOKENIZER)


def test_a_verification_is_kept_under_the_seal(saved_model: Path) -> None:
    before = (saved_model / SETTINGS).read_text(encoding="utf-8")
    record = {"samples": 1}
    try:
        keep_verification(saved_model, record)
        assert read_settings(saved_model)["verification"] == record
        text = (saved_model / SETTINGS).read_text(encoding="utf-8")
        (saved_model / SETTINGS).write_text(text.replace('"samples": 1', '"samples": 2'), encoding="utf-8")
        with pytest.raises(FileFormatError, match="does not match its checksum"):
            read_settings(saved_model)
    finally:
        (saved_model / SETTINGS).write_text(before, encoding="utf-8")


def test_folders_of_earlier_versions_are_read(saved_model: Path) -> None:
    before = (saved_model / SETTINGS).read_text(encoding="utf-8")
    settings = json.loads(before) | {"version": 1}
    for name in ("sha256", "tokenizer_sha256"):
        del settings[name]
    try:
        wanted = lm.load(saved_model, threads=1).generate("abc", max_tokens=4)
        (saved_model / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        assert lm.load(saved_model, threads=1).generate("abc", max_tokens=4) == wanted
        assert saved_description(saved_model).special_tokens.begin == settings["bos"]
    finally:
        (saved_model / SETTINGS).write_text(before, encoding="utf-8")
