"""Files and folders that hold something else than a language model that is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from intact.errors import FileAccessError, FileFormatError, IntactError, UnsupportedError
from intact.lm.description.config_json import family_of
from intact.lm.description.language_part import is_whole
from intact.lm.description.model_files import ModelFiles

CONFIG, ADAPTER = "config.json", "adapter_config.json"
_WEIGHTS = ("*.safetensors", "*.gguf")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_FRAMEWORKS = {
    "openvino_model.xml": "an OpenVINO model", "tf_model.h5": "weights of TensorFlow",
    "saved_model.pb": "a TensorFlow model", "flax_model.msgpack": "weights of Flax",
    "model_index.json": "a pipeline of diffusers", "tokenizer.model": "a tokenizer without a model",
}  # fmt: skip
"""Names of files, and what a folder with one is."""
_SUFFIXES = {
    ".h5": "weights of TensorFlow", ".pb": "a TensorFlow model", ".msgpack": "weights of Flax",
    ".tflite": "a TensorFlow Lite model", ".xml": "an OpenVINO model", ".zip": "an archive",
    ".gz": "an archive", ".tar": "an archive",
}  # fmt: skip
_PART = re.compile(r".*-\d{5}-of-(\d{5})\.safetensors", re.DOTALL)
_WANTED = "a GGUF file, a folder of config.json and safetensors files, or an ONNX file"
_ORIGINAL = "take the model's original folder, or a GGUF file of it"
_MERGE = "merge the adapter into its model, by peft's merge_and_unload, and save that"
_POINTER, _POINTER_BYTES = b"version https://git-lfs", 1024
_MOST_ENTRIES, _DEPTH, _SHOWN = 2000, 3, 4


def refuse_foreign(path: Path) -> None:
    """Refuse a path that is known to be something else than a language model that is read.

    Raises:
        UnsupportedError: It is something else; the error says what, and what to do.
        FileFormatError: Something is missing or lies elsewhere.
        FileAccessError: It cannot be read.
    """
    try:
        if path.is_dir():
            _refuse_folder(path)
        elif path.is_file():
            _refuse_file(path)
    except IntactError:
        raise
    except OSError as error:
        raise FileAccessError.of(path, error, "read") from error


def _refuse_file(path: Path) -> None:
    where, suffix = f"file '{path}'", path.suffix.lower()
    _refuse_pointer(path)
    match = _PART.fullmatch(path.name)
    if path.name.startswith("adapter_model."):
        raise UnsupportedError(where, "the weights of an adapter", _WANTED, _MERGE)
    if suffix in _PICKLES:
        raise _pickles(where, path.name)
    if suffix in _SUFFIXES:
        fix = "unpack it, and give the folder" if _SUFFIXES[suffix] == "an archive" else _ORIGINAL
        raise UnsupportedError(where, _SUFFIXES[suffix], _WANTED, fix)
    if suffix in (".json", ".jinja", ".model", ".txt", ".md"):
        raise FileFormatError(where, "a file beside a model's weights", _WANTED, f"give '{path.parent}'")
    if match is not None and int(match[1]) > 1:
        raise FileFormatError(
            where, f"one of {int(match[1])} files of a model", "all", f"give '{path.parent}'"
        )


def _refuse_folder(folder: Path) -> None:
    where = f"folder '{folder}'"
    names = sorted(entry.name for entry in islice(folder.iterdir(), _MOST_ENTRIES))
    if not names:
        raise FileFormatError(where, "no files", _WANTED, "download the model into it")
    weights = [file for pattern in _WEIGHTS for file in sorted(folder.glob(pattern))]
    for file in weights:
        _refuse_pointer(file)
    if ADAPTER in names:
        models = [file for file in weights if not file.name.startswith("adapter_model.")]
        beside = f" beside a whole model ('{models[0].name}')" if models else " without its model"
        fix = f"{_MERGE}, or move {ADAPTER} and its weights away" if models else _MERGE
        raise UnsupportedError(where, f"an adapter ({ADAPTER}){beside}", "one whole model", fix)
    for name, kind in _FRAMEWORKS.items():
        if name in names and (not weights or name == "model_index.json"):
            raise UnsupportedError(where, f"{kind} ({name})", _WANTED, _ORIGINAL)
    if not weights:
        _refuse_without_weights(folder, where, names)
    elif any(file.suffix == ".safetensors" for file in weights):
        _refuse_config(folder, where, CONFIG in names)


def _refuse_config(folder: Path, where: str, has_config: bool) -> None:
    """Refuse safetensors files of other models, by their config.json."""
    if not has_config:
        raise FileFormatError(
            where, f"safetensors files without {CONFIG}", f"the {CONFIG} of the model", "copy it beside them"
        )
    fields = ModelFiles(folder).fields(CONFIG)
    if isinstance(codes := fields.peek("quantization"), dict) and "quant_method" not in codes:
        raise UnsupportedError(
            where, f"weights with codes of MLX (quantization in {CONFIG})", _WANTED, _ORIGINAL
        )
    if not is_whole(fields):
        family_of(fields)


def _refuse_without_weights(folder: Path, where: str, names: list[str]) -> None:
    pickle = next((name for name in names if Path(name).suffix in _PICKLES), None)
    if pickle is not None:
        raise _pickles(where, pickle)
    if any(name.endswith((".onnx", ".onnx_data")) for name in names):
        return
    models = list(islice(_models_below(folder, _DEPTH), _SHOWN + 1))
    if models:
        shown = ", ".join(f"'{model.relative_to(folder)}'" for model in models[:_SHOWN])
        more = " and more" if len(models) > _SHOWN else ""
        raise FileFormatError(
            where, f"no model, but folders with one: {shown}{more}", "one model", f"give '{models[0]}'"
        )
    if CONFIG in names:
        raise FileFormatError(
            where, f"{CONFIG} without weights", "safetensors files beside it", "download the weights, too"
        )
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    raise FileFormatError(where, f"no model: {shown}", _WANTED, "give the folder or the file of a model")


def _models_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield folders with weights below one, the nearest first."""
    below = [entry for entry in sorted(islice(folder.iterdir(), _MOST_ENTRIES)) if entry.is_dir()]
    for each in below:
        if any(next(each.glob(pattern), None) for pattern in (*_WEIGHTS, "*.onnx", "model.plan")):
            yield each
    if depth > 1:
        for each in below[:50]:
            yield from _models_below(each, depth - 1)


def _pickles(where: str, name: str) -> UnsupportedError:
    return UnsupportedError(
        where, f"weights as pickles ('{name}'), which can run code", "safetensors files",
        "load the model by transformers, and save it by save_pretrained, or pass the loaded module",
    )  # fmt: skip


def _refuse_pointer(path: Path) -> None:
    """Refuse what git leaves in place of a large file."""
    if path.stat().st_size <= _POINTER_BYTES and path.read_bytes().startswith(_POINTER):
        raise FileFormatError(f"file '{path}'", "a pointer of git-lfs", "the file itself", "run git lfs pull")
