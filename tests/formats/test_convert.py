"""From every format to every other one: the same floats, all or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.formats.model_cases import CONFIGS, int4, write_folder, write_gguf_file
from tests.numerics.block_cases import k_quant

from intact.errors import FileFormatError, IntactError, QuantValueError, UnsupportedError
from intact.formats import (
    FORMATS,
    GGML_TYPES,
    GgufFile,
    GgufTensor,
    compare_weights,
    convert,
    floats_of,
    holders,
    open_weights,
    write_gguf,
)
from intact.formats.packed_layers import LAYER_CODECS
from intact.numerics import BlockWeights, dequantize_blocks


@pytest.fixture
def layers(rng):
    return {f"model.layers.{i}.q_proj": int4(rng) for i in range(2)}


@pytest.fixture
def arrays(rng):
    return {
        "model.norm.weight": rng.normal(size=128).astype(np.float32),
        "lm_head.weight": np.ones((3, 4), np.float16),
    }


def write(tmp_path: Path, form: str, layers, arrays) -> Path:
    if form == "gguf":
        return write_gguf_file(tmp_path / "in.gguf", layers, arrays)
    return write_folder(tmp_path / "in", form, layers, arrays, shards=2)


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", ["gguf", *CONFIGS])
def test_every_float_stays(tmp_path, layers, arrays, source, target):
    path = write(tmp_path, source, layers, arrays)
    out = tmp_path / ("out.gguf" if target == "gguf" else "out")
    conversion = convert(path, out, target)
    assert conversion.tensors == 4 and all(file.exists() for file in conversion.files)
    expected = {"Q4_0": 2, "F32": 1, "F16": 1} if source == target == "gguf" else {"plain": 2}
    assert sum(conversion.grids.values()) == 4 and expected.items() <= conversion.grids.items()
    result = open_weights(out)
    assert result.format == target
    assert sorted(result.names) == sorted([*(f"{name}.weight" for name in layers), *arrays])
    for name, weights in layers.items():
        read = result.read(f"{name}.weight")
        assert isinstance(read, BlockWeights) == (target != "safetensors")
        np.testing.assert_array_equal(floats_of(read), dequantize_blocks(weights))
    for name, array in arrays.items():
        np.testing.assert_array_equal(result.read(name), array)
    differences = list(compare_weights(path, out))
    assert len(differences) == 4 and not any(d.differing or d.missing for d in differences)


@pytest.mark.parametrize("form", CONFIGS)
def test_a_format_is_written_as_it_was_read(tmp_path, layers, arrays, form):
    path = write(tmp_path, form, layers, arrays)
    convert(path, tmp_path / "out", form)
    before, after = open_weights(path), open_weights(tmp_path / "out")
    for name in layers:
        a, b = (LAYER_CODECS[form].write(w.read(f"{name}.weight")) for w in (before, after))
        assert all((a[suffix] == b[suffix]).all() for suffix in a)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["model_type"] == "llama"
    assert config["quantization_config"]["quant_method"] == CONFIGS[form]["quant_method"]
    assert (tmp_path / "out/tokenizer.json").read_text() == "{}"


def test_a_gguf_file_comes_back_byte_for_byte(tmp_path, layers, arrays):
    path = write(tmp_path, "gguf", layers, arrays)
    convert(path, tmp_path / "out.gguf", "gguf")
    assert (tmp_path / "out.gguf").read_bytes() == path.read_bytes()


def test_types_that_are_not_read_are_copied(tmp_path):
    kind, raw = GgufTensor(GGML_TYPES["IQ2_XXS"], (256,)), np.arange(66, dtype=np.uint8)
    write_gguf(tmp_path / "in.gguf", {}, {"w": kind}, lambda name: raw)
    assert convert(tmp_path / "in.gguf", tmp_path / "out.gguf", "gguf").grids == {"IQ2_XXS": 1}
    assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "in.gguf").read_bytes()


def test_k_quants_stay_in_gguf_and_go_to_floats(tmp_path, rng):
    w = k_quant(rng, "uint4", minima=True)
    w = BlockWeights(
        w.codes,
        "uint4",
        np.abs(w.scales).astype(np.uint8),
        32,
        None,
        w.minima,
        w.super_scales,
        w.super_minima,
    )
    write_gguf(tmp_path / "in.gguf", {}, {"w": GgufTensor(GGML_TYPES["Q4_K"], w.shape)}, lambda name: w)
    convert(tmp_path / "in.gguf", tmp_path / "same.gguf", "gguf")
    assert (tmp_path / "same.gguf").read_bytes() == (tmp_path / "in.gguf").read_bytes()
    convert(tmp_path / "in.gguf", tmp_path / "floats.safetensors", "safetensors")
    np.testing.assert_array_equal(
        open_weights(tmp_path / "floats.safetensors").read("w"), dequantize_blocks(w)
    )
    with pytest.raises(UnsupportedError, match=r"tensor 'w'.*convert to gguf"):
        convert(tmp_path / "in.gguf", tmp_path / "out", "awq")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "block", "scale", "expected"),
    [
        ("int4", 32, np.float16, "Q4_0"),
        ("int4", 128, np.float16, "Q4_0"),
        ("uint4", 32, np.float16, "Q4_1"),
        ("int5", 64, np.float16, "Q5_0"),
        ("int8", 32, np.float16, "Q8_0"),
        ("int7", 32, np.float16, "Q8_0"),
        ("iq4", 32, np.float16, "IQ4_NL"),
        ("int4", 32, np.float32, None),
        ("int4", 16, np.float16, None),
        ("nf4", 32, np.float16, None),
    ],
)
def test_the_smallest_type_of_gguf_that_holds_weights(tmp_path, rng, name, block, scale, expected):
    from tests.numerics.block_cases import codes_of

    codes = codes_of(rng, name, (64, 256))
    scales = (rng.normal(size=(64, 256 // block)) * 0.1).astype(scale)
    w = BlockWeights(codes, name, scales, block)
    assert ("gguf" in holders(w)) == (expected is not None)
    if expected and name.startswith("int"):
        folder = write_folder(tmp_path / "in", "compressed-tensors", {"a": w}, {})
        convert(folder, tmp_path / "out.gguf", "gguf")
        with GgufFile(tmp_path / "out.gguf") as file:
            assert file.tensors["a.weight"].kind.name == expected


def test_a_refusal_names_the_tensor_and_a_format_that_holds_it(tmp_path, rng):
    codes, points = rng.integers(0, 16, (64, 128), np.uint8), rng.integers(0, 16, (64, 4), np.uint8)
    w = BlockWeights(codes, "uint4", rng.normal(size=(64, 4)).astype(np.float16), 32, points)
    folder = write_folder(tmp_path / "in", "awq", {"a.b": w}, {})
    target = tmp_path / "out.gguf"
    target.write_bytes(b"old")
    with pytest.raises(
        UnsupportedError, match=r"tensor 'a\.b\.weight'.*uint4 in blocks of 32.*compressed-tensors"
    ):
        convert(folder, target, "gguf")
    assert target.read_bytes() == b"old" and sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.gguf"]


def test_layers_of_different_bits_go_to_compressed_tensors_alone(tmp_path, rng):
    w8 = BlockWeights(
        rng.integers(-128, 128, (64, 128)).astype(np.int8), "int8", np.ones((64, 1), np.float16), 128
    )
    folder = write_folder(tmp_path / "in", "compressed-tensors", {"a": int4(rng), "b": w8}, {})
    convert(folder, tmp_path / "out", "compressed-tensors")
    groups = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]["config_groups"]
    assert [g["targets"] for g in groups.values()] == [["a"], ["b"]]
    assert [g["weights"]["num_bits"] for g in groups.values()] == [4, 8]
    assert [g["weights"]["strategy"] for g in groups.values()] == ["group", "channel"]
    with pytest.raises(UnsupportedError, match=r"tensor 'b\.weight'.*compressed-tensors"):
        convert(folder, tmp_path / "gptq", "gptq")
    assert not (tmp_path / "gptq").exists()


def test_damaged_folders_are_refused(tmp_path, layers, arrays):
    with pytest.raises(FileFormatError, match="no safetensors"):
        open_weights(tmp_path)
    folder = write_folder(tmp_path / "in", "awq", layers, arrays, shards=2)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"x": "gone.safetensors"}})
    )
    with pytest.raises(FileFormatError, match=r"gone\.safetensors"):
        open_weights(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": ["a"], "y": 3}}))
    assert len(open_weights(folder).names) == 4
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(FileFormatError, match="without"):
        open_weights(folder)
    for text in ("{", "[1]", "3", "\udcff"):
        (folder / "config.json").write_text(text, errors="surrogateescape")
        with pytest.raises(FileFormatError):
            open_weights(folder)


def test_other_mistakes_are_named(tmp_path, layers, arrays):
    path = write(tmp_path, "awq", layers, arrays)
    with pytest.raises(QuantValueError, match="onnx"):
        convert(path, tmp_path / "out", "onnx")
    with pytest.raises(QuantValueError, match="'w'"):
        open_weights(path).read("w")
    with pytest.raises(IntactError, match="missing"):
        convert(path, tmp_path / "missing/out", "gptq")
    (tmp_path / "file").write_text("x")
    with pytest.raises(IntactError, match="file"):
        convert(path, tmp_path / "file", "gptq")


def test_differences_are_counted(tmp_path, rng, arrays):
    w = int4(rng)
    codes = w.codes.copy()
    codes[3, 5] ^= 1
    first = write_folder(tmp_path / "a", "awq", {"q": w, "k": w}, arrays)
    changed = BlockWeights(codes, "int4", w.scales, 32)
    second = write_folder(tmp_path / "b", "awq", {"q": changed, "v": w}, arrays)
    differences = {d.name: d for d in compare_weights(first, second)}
    assert differences["q.weight"].differing == 1 and differences["q.weight"].elements == 64 * 128
    assert differences["q.weight"].largest == abs(np.float32(w.scales[3, 0]))
    assert (differences["k.weight"].missing, differences["v.weight"].missing) == ("second", "first")
