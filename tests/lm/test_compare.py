"""Comparisons of two language models: layers, sizes and answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, byte_tokenizer, write_folder

from intact import lm
from intact.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = write_folder("llama", tmp_path_factory.mktemp("llama"))
    byte_tokenizer().save(str(path / "tokenizer.json"))
    return path


def test_the_layer_with_few_bits_loses_most(folder):
    floats = lm.load(folder, weights="float32", threads=1)
    other = lm.load(folder, weights="int8", block=16, bits_of={"1.down": "int2", "2.q": "uint4"}, threads=1)
    losses = {loss.name: loss for loss in lm.layer_losses(floats, other, TOKENS)}
    assert len(losses) == 3 * 7 + 1
    assert max(losses.values(), key=lambda loss: loss.error).name == "1.down"
    assert losses["1.down"].bits == 2 and losses["2.q"].bits == 4 and losses["0.q"].bits == 8
    assert losses["0.q"].error < 1e-4 < losses["2.q"].error < losses["1.down"].error
    assert losses["2.gate"].total > 10 * losses["2.gate"].error  # what 1.down lost
    assert losses["0.q"].total < 1e-3
    assert lm.layer_losses(other, other, TOKENS) == []


def test_sizes_count_codes_scales_and_floats(folder):
    floats, int4 = (lm.load(folder, weights=name, block=16, threads=1) for name in ("float32", "int4"))
    assert lm.weight_bits(floats) == 32 and lm.weight_bits(int4) == 5
    assert lm.weight_bytes(int4) < lm.weight_bytes(floats) / 3


def test_the_command_line_says_everything_on_a_page(folder, tmp_path, capsys):
    text, page = tmp_path / "text.txt", tmp_path / "page.html"
    text.write_text("".join(chr(97 + i) for i in np.random.default_rng(0).integers(0, 26, 300)))
    words = ["lm", "compare", folder, folder, "--weights", "int4", "--text", text, "--length", "60"]
    outputs = []
    for more in (["--page", page], ["--json"]):
        with pytest.raises(SystemExit) as stopped:
            main([*map(str, words), *map(str, more)])
        assert not stopped.value.code
        outputs.append(capsys.readouterr().out)
    record = json.loads(outputs[1])
    assert len(record["layers"]) == 22 and record["bits_per_weight"][0] == 32
    assert len(record["tokens_per_second"]) == 2 and record["kl_999"] >= record["kl"] > 0
    for label in ("perplexity", "99.9%", "bits for each weight", "tokens a second", "lose most"):
        assert label in outputs[0]
    html = page.read_text()
    assert html.count("<svg") >= 2 and "2.down" in html and "Divergence of tokens" in html
