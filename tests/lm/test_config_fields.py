"""Each field of a configuration decides what is computed, changes nothing, or is refused by its name."""

from __future__ import annotations

import dataclasses
import zlib

import pytest
from tests.lm.config_sweep import EQUAL, NO_MEANING, REFUSED, outcome
from tests.lm.config_variants import FAMILIES, variants

from intact.lm.description import families

transformers = pytest.importorskip("transformers", reason="the package transformers says what fields mean")
pytest.importorskip("torch")
_SHARE = 8
"""One of so many configurations is tried here; `python -m tests.lm.config_sweep` tries all."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_field_is_read_past(family, tmp_path):
    results = {}
    for number, (field, value, record) in enumerate(variants(family)):
        if not field or zlib.crc32(f"{family} {field} {value}".encode()) % _SHARE == 0:
            results[f"{field} = {value}"] = outcome(tmp_path / str(number), field, record)
    assert set(results.values()) <= {EQUAL, REFUSED, NO_MEANING}, results
    assert results[" = None"] == EQUAL, "the default opens"


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_are_those_of_transformers(family):
    kind = getattr(transformers, f"{family}Config")
    record = families.FAMILIES[kind.model_type]
    own = {field.name: field.default for field in dataclasses.fields(kind) if field.init}
    for key, value in record.defaults.items():
        name = record.own_names.get(key, key)
        if value is not None and name in own:
            assert own[name] == value, name
    names = {record.own_names.get(key, key) for key in record.defaults} | {
        *families.HARMLESS,
        *families.FIXED,
    }
    elsewhere = {"bos_token_id", "eos_token_id", "rope_parameters", "original_max_position_embeddings"}
    assert set(own) - names <= elsewhere | {"attn_logit_softcapping", "per_layer_config"}
