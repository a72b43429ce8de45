"""Bits of single layers of a language model within a budget of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lm.small_decoders import TOKENS, byte_tokenizer, write_folder

from intact import lm
from intact.cli import main
from intact.engine import compile as compile_model
from intact.errors import QuantValueError
from intact.lm.decoders import mixed_weights, product_times
from intact.ptq.blocks import BlockFormat


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = write_folder("qwen3", tmp_path_factory.mktemp("qwen3"))  # heads of 16, as ONNX Runtime wants
    byte_tokenizer().save(str(path / "tokenizer.json"))
    return path


def letters(count: int) -> str:
    return "".join(chr(97 + letter) for letter in np.random.default_rng(0).integers(0, 26, count))


def bits_of(model: lm.LanguageModel) -> list[int]:
    return [step.bits for step in model.engine.plan.steps if step.kind == "block_linear"]


def test_a_text_chooses_bits_that_lose_less_than_the_same_for_all(folder):
    options = {"block": 16, "text": letters(640), "method": "rtn", "threads": 1}
    mixed = lm.load(folder, weights="int4", bits_budget=6, **options)
    alike = lm.load(folder, weights="int5", bits_of={"head": "int5"}, **options)
    assert set(bits_of(alike)) == {5} and len(set(bits_of(mixed))) > 1
    assert lm.weight_bits(mixed) <= lm.weight_bits(alike) == 6
    floats = lm.load(folder, weights="float32", threads=1)
    windows = [np.random.default_rng(5).integers(2, 28, 100) for _ in range(3)]
    losses = [lm.compare_models(floats, other, windows).kl for other in (mixed, alike)]
    assert losses[0] < losses[1]
    assert mixed.settings["bits_budget"] == "6"


def sizes_of(model: lm.LanguageModel) -> list[int]:
    plan = model.engine.plan
    return [len(plan.constants[s.weight]) * s.inputs for s in plan.steps if s.kind == "block_linear"]


@pytest.mark.parametrize("family", ["qwen3", "gemma", "gpt2"])
def test_weights_alone_choose_bits_without_a_text(family, tmp_path):
    folder = write_folder(family, tmp_path / family)
    model = lm.load(folder, weights="uint4", block=16, bits_budget=6.5, threads=1)
    assert 6 < lm.weight_bits(model) <= 6.5 or family == "gpt2"  # whose vectors of positions stay floats
    assert len(set(bits_of(model))) > 1
    reference = lm.load(folder, weights="uint4", block=16, bits_budget=6.5, backend="reference")
    assert model.logits(TOKENS).tobytes() == reference.logits(TOKENS).tobytes()


def test_a_head_with_a_choice_of_its_own_is_no_part_of_the_budget(folder):
    model = lm.load(folder, weights="int4", block=16, bits_budget=5, bits_of={"head": "int8"}, threads=1)
    *layers, head = bits_of(model)
    assert head == 8
    assert lm.weight_bits(model) > 5 >= np.average(layers, weights=sizes_of(model)[:-1]) + 1


def test_a_budget_of_time_counts_what_formats_take(folder, monkeypatch):
    nanoseconds = {"int2": 1.0, "int3": 1.5, "int4": 2.0, "int5": 9.0, "int6": 9.0, "int8": 3.0}
    monkeypatch.setattr(
        mixed_weights,
        "seconds_per_weight",
        lambda grids, shapes, threads: [1e-9 * nanoseconds[g.name] for g in grids],
    )
    count = sum(array.size for name, array in floats_of(folder).items() if "norm" not in name)
    count -= floats_of(folder)["model.embed_tokens.weight"].size
    model = lm.load(folder, weights="int4", block=16, time_budget=2.5e-6 * count, threads=1)
    assert set(bits_of(model)) <= {2, 3, 4, 8} and 8 in bits_of(model)


def floats_of(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


def test_products_of_every_format_are_timed(monkeypatch):
    models = []

    def compile_and_note(model, threads):
        models.append(model)
        return compile_model(model, threads=threads)

    monkeypatch.setattr(product_times, "compile_model", compile_and_note)
    monkeypatch.setattr(product_times, "_WEIGHTS", 2**14)
    monkeypatch.setattr(product_times, "_LARGEST", 2**12)
    grids = [BlockFormat(name, 32) for name in ("int2", "int3", "uint5", "int8")]
    shapes = [(64, 40)] * 6 + [(32, 64)] * 3 + [(10_000, 64)]
    seconds = product_times.seconds_per_weight(grids, shapes, 1)
    assert len(seconds) == 4 and min(seconds) > 0
    for model in models:  # three quarters of each shape, and 64 of the 10,000 rows
        assert [y.shape[1] for y in model.graph.outputs] == [64] * 4 + [32] * 2 + [64]
    product_times.seconds_per_weight(grids[:1], [(8, 16), (8, 32)], 1)
    assert [y.shape[1] for y in models[-1].graph.outputs] == [8, 8]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"bits_budget": 2.2}, r"at least 3"), ({"bits_budget": 5, "time_budget": 1}, "one of them"),
        ({"bits_budget": float("nan")}, "bits_budget"), ({"time_budget": -1}, "time_budget"),
        ({"bits_budget": 5, "weights": "keep"}, "weights"),
        ({"bits_budget": 5, "weights": "float32"}, "weights"),
    ],
)  # fmt: skip
def test_wrong_budgets_are_refused(options, what, folder):
    with pytest.raises(QuantValueError, match=what):
        lm.load(folder, **({"weights": "int4", "block": 16} | options))


def test_the_command_line_takes_a_budget(folder, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as stopped:
        main(["lm", "quantize", str(folder), "-o", str(out), "--bits-budget", "5.5", "--block", "16"])
    assert not stopped.value.code
    assert lm.weight_bits(lm.load(out)) <= 5.5
