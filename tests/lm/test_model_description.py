"""The meaning of a model's files is shown, kept with a saved folder, and bounds what may be asked of it."""

from __future__ import annotations

import json

import pytest
from tests.lm.small_decoders import TOKENS, write_folder, write_llama_gguf

from intact import lm
from intact.cli import main
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats.metadata_fields import MetadataFields


def change(folder, name="config.json", **fields):
    path = folder / name
    record = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(record | fields))
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_folder("llama", tmp_path / "llama")


def test_every_field_of_every_file_is_accounted_for(folder):
    change(folder, "generation_config.json", eos_token_id=[5, 7], temperature=0.6)
    described = lm.describe(folder)
    keys = {(use.file, use.key): use.use for use in described.fields}
    config = json.loads((folder / "config.json").read_text())
    assert {key for file, key in keys if file == "config.json"} >= set(config)
    assert keys["generation_config.json", "eos_token_id"] == "used"
    assert keys["generation_config.json", "temperature"] == "requests choose how tokens are drawn"
    assert described.special_tokens.ends == (5, 7)


def test_a_field_that_nobody_knows_is_refused_until_the_user_accepts_it(folder):
    change(folder, new_trick=3)
    with pytest.raises(UnsupportedError, match=r"new_trick = 3.*--accept new_trick"):
        lm.load(folder)
    with pytest.raises(UnsupportedError, match="new_trick"):
        lm.load(folder, accept=["rope_theta"])
    model = lm.load(folder, accept=["new_trick"], positions=64)
    uses = {use.key: use.use for use in model.description.fields}
    assert uses["new_trick"] == "accepted, not used"


def test_sources_that_contradict_each_other_are_refused_with_both(folder):
    change(folder, rope_theta=5.0, rope_parameters={"rope_type": "default", "rope_theta": 7.0})
    with pytest.raises(FileFormatError, match=r"rope_theta = 5\.0, but rope_parameters\.rope_theta = 7"):
        lm.describe(folder)
    change(folder, rope_parameters=None, n_layer=2)
    with pytest.raises(FileFormatError, match="n_layer = 2, but num_hidden_layers is 3"):
        lm.describe(folder)
    assert lm.describe(change(folder, n_layer=3)).decoder.layers == 3


def test_a_bias_that_the_configuration_rules_out_is_refused(tmp_path):
    folder = change(write_folder("llama-biases", tmp_path / "m"), attention_bias=False)
    with pytest.raises(UnsupportedError, match=r"bias.*no bias.*attention_bias"):
        lm.load(folder)


def test_show_prints_the_record_of_folders_gguf_files_and_saved_folders(
    folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    gguf = write_llama_gguf(tmp_path / "m.gguf")
    lm.save(lm.load(folder, weights="int4", positions=64), tmp_path / "saved")
    for path in (folder, gguf, tmp_path / "saved"):
        with pytest.raises(SystemExit, match="0"):
            main(["lm", "show", str(path), "--json"])
        record = json.loads(capsys.readouterr().out)
        assert record["family"] == "llama" and len(record["fields"]) > 8
    with pytest.raises(SystemExit, match="0"):
        main(["lm", "show", str(folder)])
    table = capsys.readouterr().out
    assert "num_hidden_layers" in table and "it concerns training" in table


def test_options_that_a_saved_folder_decided_are_refused(folder, tmp_path):
    saved = tmp_path / "saved"
    lm.save(lm.load(folder, weights="int4", positions=64), saved)
    assert lm.load(saved, positions=16).positions == 16
    assert lm.load(saved, weights="int4").logits(TOKENS).shape == (24, 64)
    for name, value in {
        "positions": 65, "weights": "int8", "cache": "int8", "text": "a", "rotate": True, "bits_budget": 4.5,
        "backend": "reference", "activations": "float", "block": 64, "tokenizer": "tokenizer.json",
    }.items():  # fmt: skip
        with pytest.raises(QuantValueError, match=name):
            lm.load(saved, **{name: value})
    with pytest.raises(QuantValueError, match="positions"):
        lm.load(saved, positions=0)


@pytest.mark.parametrize("damage", [
    {"pooling": {"kind": "sum"}}, {"pooling": {"unknown": 1}}, {"fields": [[1]]}, {"family": 3},
    {"pooling": None},
])  # fmt: skip
def test_a_damaged_description_of_a_saved_folder_is_refused(damage, folder, tmp_path):
    saved = tmp_path / "saved"
    lm.save(lm.load(folder, weights="int4", positions=64), saved)
    record = json.loads((saved / "language_model.json").read_text())
    record["version"] = 1  # which has no checksum
    record["description"] |= damage
    (saved / "language_model.json").write_text(json.dumps(record))
    with pytest.raises(FileFormatError, match="what save_model writes"):
        lm.load(saved)


def test_nested_fields_are_refused_with_their_whole_name():
    fields = MetadataFields({"a": {"b": 1, "c": {"d": 2}}, "e": None}, "f.json", accepted=["a.b"])
    inner = fields.inner_fields("a")
    inner.inner_fields("c")
    with pytest.raises(UnsupportedError, match=r"a\.c\.d"):
        fields.refuse_rest("known ones")


@pytest.mark.parametrize(("method", "value"), [
    ("integer", True), ("integer", 1.5), ("integer", "1"), ("integer", -1), ("integer", 2**40),
    ("number", "1"), ("number", float("nan")), ("number", float("inf")), ("number", False), ("flag", 1),
    ("text", 3), ("inner_fields", [1]),
])  # fmt: skip
def test_a_field_of_another_kind_is_an_error_that_names_it(method, value):
    with pytest.raises(FileFormatError, match="width"):
        getattr(MetadataFields({"width": value}, "config.json"), method)("width")
