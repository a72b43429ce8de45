"""Linear biases: slopes of heads, and what positions add to scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, write_folder

from intact import lm
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.lm.description.linear_biases import LinearBiases, halving_slopes, mpt_slopes


def test_slopes_of_a_power_of_two_halve():
    assert halving_slopes(8) == tuple(2.0**-power for power in range(1, 9))
    assert mpt_slopes(8) == halving_slopes(8)


def test_other_numbers_of_heads_take_every_second_slope_of_the_next_power():
    assert halving_slopes(6) == (2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3)
    assert mpt_slopes(6) == (2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3)
    assert mpt_slopes(3) == (2.0**-4, 2.0**-8, 2.0**-2)


def test_biases_are_positions_times_slopes():
    table = LinearBiases((0.5, 0.25)).table(3)
    np.testing.assert_array_equal(table, np.array([[0, 0], [0.5, 0.25], [1, 0.5]], np.float32))
    rounded = LinearBiases((0.3,), 0.5, rounds=True).table(258)
    assert rounded[257, 0] == np.float32(77.5 / 2), "0.30078125 times 257, to 8 bits"


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon-alibi"])
def test_chunks_batches_and_threads_change_no_bit(family, tmp_path):
    folder = write_folder(family, tmp_path / family)
    options = {"weights": "int4", "block": 16, "positions": 64}
    expected = lm.load(folder, threads=1, **options).logits(TOKENS)
    reference = lm.load(folder, backend="reference", **options).logits(TOKENS)
    assert expected.tobytes() == reference.tobytes()
    cache = lm.load(folder, threads=2, **options).new_cache(2)
    for sequence, chunk in ((1, 1), (0, 7)):
        parts = [TOKENS[at : at + chunk] for at in range(0, len(TOKENS), chunk)]
        rows = [cache.append(part, range(len(part)), sequence) for part in parts]
        assert np.concatenate(rows).tobytes() == expected.tobytes()


def test_biases_of_heads_that_share_keys_are_refused_by_name(tmp_path):
    folder = write_folder("falcon-alibi", tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"multi_query": True}))
    with pytest.raises(UnsupportedError, match="alibi"):
        lm.load(folder, weights="float32")


@pytest.mark.parametrize("cache", ["float16", "int8"])
def test_keys_with_biases_are_kept_as_they_are(cache, tmp_path):
    folder = write_folder("bloom", tmp_path / "m")
    with pytest.raises(QuantValueError, match="bias of their position"):
        lm.load(folder, weights="float32", cache=cache)


def test_scores_without_a_scale_are_refused_by_name(tmp_path):
    folder = write_folder("mpt", tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config["attn_config"]["softmax_scale"] = 0
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileFormatError, match="softmax_scale"):
        lm.load(folder, weights="float32")
