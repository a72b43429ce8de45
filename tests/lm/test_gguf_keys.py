"""Keys of GGUF files mean what llama.cpp computes, change nothing, or are refused by their names.

`gguf_keys.npz` has what llama.cpp computed; `gguf_key_sweep.py` wrote it, and compares every key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lm.gguf_key_sweep import STORED, all_variants, label, log_probabilities, tolerance
from tests.lm.gguf_variants import ARCHITECTURES, write_variant

from intact.errors import IntactError, UnsupportedError
from intact.formats import GgufField, GgufFile, open_weights, write_gguf
from intact.lm.description.decoder_config import DecoderConfig
from intact.lm.description.read_description import read_description

ONLY_HERE = ("attention.sliding_window_pattern", "attention.key_length")
"""Keys with values that llama.cpp refuses."""
UNSEEN = {"context", "epsilon"}
"""Fields of which the sweep tries values that change no logit of the files by more than its tolerance."""


@pytest.fixture(scope="module")
def llama_rows():
    with np.load(STORED) as rows:
        return dict(rows)


def config_of(path: Path) -> DecoderConfig | None:
    return read_description(open_weights(path), path).decoder


def differences(config: DecoderConfig, base: DecoderConfig) -> set[str]:
    return {name for name, value in vars(config).items() if value != getattr(base, name)}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_probabilities_are_those_of_llama_cpp(architecture, llama_rows, tmp_path):
    """Of each three files one is computed; the sweep computes all."""
    count = 0
    for number, (name, key, value, files) in enumerate(all_variants(architecture)):
        want = llama_rows.get(label(architecture, key, value))
        if want is None or (number % 3 and not key.startswith("tensor ")) or key == "tensor block_count":
            continue
        path = write_variant(tmp_path / "m.gguf", architecture, *files)
        np.testing.assert_allclose(
            log_probabilities(path), want, atol=tolerance(architecture), err_msg=f"{name} = {value}"
        )
        count += 1
    assert count >= 5


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_key_is_compared_refused_by_name_or_changes_nothing(architecture, llama_rows, tmp_path):
    base, refused = None, 0
    for name, key, value, files in all_variants(architecture):
        if key.startswith("tensor "):
            continue
        path = write_variant(tmp_path / "m.gguf", architecture, *files)
        try:
            config = config_of(path)
        except IntactError as error:
            assert name in str(error), f"{name} = {value}: {error}"
            refused += 1
            continue
        base = config if base is None else base
        is_compared = label(architecture, key, value) in llama_rows or key in ONLY_HERE
        unseen = UNSEEN | ({"rotary"} if architecture == "gpt2" else set())  # nothing rotates there
        unseen |= {"kv_heads"} if value is None else set()  # the tensors have other shapes then
        assert is_compared or differences(config, base) <= unseen, f"{name} = {value}"
    assert refused > 100


def read(folder: Path, architecture: str, **changes: Any) -> DecoderConfig | None:
    keys = ARCHITECTURES[architecture] | changes
    return config_of(write_variant(folder / "m.gguf", architecture, keys))


def test_the_scale_of_gemma_of_27b_follows_the_number_of_layers(tmp_path):
    lengths = {"attention.key_length": 16, "attention.value_length": 16, "rope.dimension_count": 16}
    for architecture, layers in (("gemma2", 46), ("gemma3", 62)):
        scales = [read(tmp_path, architecture, **lengths, block_count=count).attention_scale
                  for count in (layers - 1, layers)]  # fmt: skip
        assert scales == pytest.approx([16**-0.5, 8**-0.5])


def test_the_window_of_phi3_is_refused_unless_nothing_reaches_beyond_it(tmp_path):
    """llama.cpp reads past it, and transformers does not: both agree on no more than its tokens."""
    assert read(tmp_path, "phi3", **{"attention.sliding_window": 128}).window == 0
    with pytest.raises(UnsupportedError, match=r"phi3\.attention\.sliding_window = 64"):
        read(tmp_path, "phi3", **{"attention.sliding_window": 64})


def test_a_bias_of_one_half_of_a_gated_layer_is_no_bias_of_the_other(llama_rows):
    assert any(name.startswith("llama tensor ffn_up") for name in llama_rows)


KINDS = (
    ("string", "x"), ("string", []), ("uint32", [1, 2]), ("int32", -1), ("float32", float("nan")),
    ("bool", True), ("uint64", 2**40), ("float64", 1e300),
)  # fmt: skip


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_a_key_of_another_kind_is_refused_by_its_name(architecture, tmp_path):
    path = write_variant(tmp_path / "m.gguf", architecture, ARCHITECTURES[architecture])
    file, changed = GgufFile(path), tmp_path / "changed.gguf"
    keys = [f"{architecture}.{key}" for key in (*ARCHITECTURES[architecture], "rope.scaling.factor")]
    refused = 0
    for key in (*keys, "general.type", "general.architecture", "split.count"):
        for kind, value in KINDS:
            write_gguf(changed, file.metadata | {key: GgufField.of(kind, value)}, file.tensors, file.raw)
            try:
                config_of(changed)
            except IntactError as error:
                assert key in str(error), f"{key} = {value}: {error}"
                refused += 1
    assert refused > 80
