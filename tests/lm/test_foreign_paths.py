"""A path that holds something else than a language model is refused with what it is, and what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.lm.gguf_variants import ARCHITECTURES, write_variant
from tests.lm.small_decoders import write_folder, write_llama_gguf

from intact import IntactError, formats, lm


def write(folder: Path, *names: str, **contents: object) -> Path:
    """Write empty files, and JSON files by their names' stems."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    for name, value in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def message(path: Path) -> str:
    with pytest.raises(IntactError) as caught:
        lm.load(path)
    assert "download the model again" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("names", "config", "kind", "fix"),
    [
        ((), None, "no files", "download the model into it"),
        (("adapter_config.json", "adapter_model.safetensors"), None, "adapter .* without its", "merge_and_"),
        (("model_index.json", "unet/x.safetensors"), None, "diffusers", "original folder"),
        (("pytorch_model.bin",), {}, r"pickles \('pytorch_model.bin'\)", "save_pretrained"),
        (("pytorch_model-00001-of-00002.bin",), {}, "pickles", "save_pretrained"),
        (("consolidated.00.pth", "params.json"), None, "pickles", "save_pretrained"),
        (("tf_model.h5",), {}, "TensorFlow", "original folder"),
        (("saved_model.pb", "variables/variables.index"), None, "TensorFlow", "original folder"),
        (("flax_model.msgpack",), {}, "Flax", "original folder"),
        (("openvino_model.xml", "openvino_model.bin"), {}, "OpenVINO", "original folder"),
        (("a.onnx", "b.onnx"), None, "a.onnx, b.onnx", "the path of the file itself"),
        (("model.safetensors",), None, r"without config.json", "copy it beside"),
        (("model.safetensors",), {"quantization": {"group_size": 64, "bits": 4}}, "MLX", "original folder"),
        (("model.safetensors",), {"model_type": "llava", "text_config": {}, "vision_config": {}},
         r"'llava' that reads more than text", "take the text model"),
        (("model.safetensors",), {"model_type": "gemma3", "text_config": {}, "vision_config": {}},
         r"'gemma3' that reads more than text", "take the text model"),
        (("model.safetensors",), {"model_type": "bert"}, r"of the family 'bert'", "export it to ONNX"),
        (("a/model.gguf", "b/model.gguf"), None, r"folders with one: 'a', 'b'", r"give '.*a'"),
        (("models--x/snapshots/1/model.safetensors",), None, "models--x/snapshots/1", r"give '.*/1'"),
        (("tokenizer.json",), {}, "config.json without weights", "download the weights"),
        (("README.md", "x.txt"), None, "no model: README.md, x.txt", "the folder or the file"),
    ],
)  # fmt: skip
def test_a_folder_says_what_it_is(tmp_path, names, config, kind, fix):
    folder = write(tmp_path / "m", *names)
    if config is not None:
        write(folder, config=config)
    text = message(folder)
    assert re.search(kind, text) and re.search(fix, text), text


def test_an_adapter_beside_a_whole_model_is_refused(tmp_path):
    folder = write_folder("llama", tmp_path / "m")
    assert lm.load(folder, threads=1)
    write(folder, "adapter_model.safetensors", adapter_config={"peft_type": "LORA"})
    assert "beside a whole model ('model.safetensors')" in message(folder)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pytorch_model.bin", "pickles"), ("model.pt", "pickles"), ("tf_model.h5", "TensorFlow"),
        ("model.zip", "an archive"), ("config.json", "beside a model's weights"),
        ("model-00001-of-00003.safetensors", "one of 3 files"), ("adapter_model.safetensors", "an adapter"),
    ],
)  # fmt: skip
def test_a_file_says_what_it_is(tmp_path, name, kind):
    write(tmp_path, name)
    assert kind in message(tmp_path / name)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    folder = write(tmp_path / "m", config={"model_type": "llama"})
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    )
    assert "run git lfs pull" in message(folder)
    assert "run git lfs pull" in message(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("key", "value", "kind", "fix"),
    [
        ("general.type", "adapter", "an adapter", "export-lora"),
        ("general.type", "mmproj", "reads images", "its language model"),
        ("general.type", "imatrix", "statistics", "the file of the model"),
        ("general.architecture", "clip", "reads images", "its language model"),
        ("general.architecture", "controlvector", "control vector", "the file of the model"),
        ("general.architecture", "flux", "of the architecture 'flux'", "ONNX"),
    ],
)
def test_a_gguf_file_says_what_it_is(tmp_path, key, value, kind, fix):
    path = write_variant(tmp_path / "m.gguf", "llama", ARCHITECTURES["llama"], {key: value})
    text = message(path)
    assert kind in text and fix in text


def test_a_folder_with_one_gguf_file_is_that_model(tmp_path):
    path = write_llama_gguf(tmp_path / "model.gguf")
    write(tmp_path, "README.md")
    tokens = [3, 5, 9]
    assert np.array_equal(
        lm.load(tmp_path, threads=1).logits(tokens), lm.load(path, threads=1).logits(tokens)
    )
    file = formats.GgufFile(path)
    assert len(formats.open_weights(tmp_path).names) == len(file.tensors)


def test_a_model_in_two_files_is_that_of_one(tmp_path):
    whole = formats.GgufFile(write_llama_gguf(tmp_path / "whole.gguf"))
    names = list(whole.tensors)
    for number, part in enumerate((names[:7], names[7:])):
        counts = {"split.no": number, "split.count": 2, "split.tensors.count": len(names)}
        keys = {key: formats.GgufField.of("int32", value) for key, value in counts.items()}
        path = tmp_path / f"m-{number + 1:05}-of-00002.gguf"
        tensors = {name: whole.tensors[name] for name in part}
        formats.write_gguf(path, (whole.metadata if number == 0 else {}) | keys, tensors, whole.raw)
    paths = (tmp_path / "whole.gguf", tmp_path / "m-00001-of-00002.gguf")
    assert np.array_equal(*(lm.load(path, threads=1).logits([3, 5, 9]) for path in paths))
