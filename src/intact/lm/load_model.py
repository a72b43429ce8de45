"""Opens language models: GGUF files, Hugging Face folders, exported ONNX files, and what `save` wrote."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from intact.engine import compile as compile_model
from intact.errors import FileFormatError, QuantValueError, SecondRoundingWarning, require_path
from intact.formats import GgufWeights, open_weights
from intact.free_memory import tidying
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.compare_models import cut_windows
from intact.lm.decoders.module_weights import is_module, module_tokenizer
from intact.lm.description.chat_templates import folder_chat_templates, tokenizer_chat_templates
from intact.lm.description.model_description import ModelDescription
from intact.lm.description.model_files import ModelFiles
from intact.lm.language_model import LanguageModel
from intact.lm.prepared_models import PreparedModel
from intact.lm.saved_folder import SETTINGS, TOKENIZER, load_saved, saved_description
from intact.lm.sequence_cache import LONGEST
from intact.lm.tokenizer import Tokenizer, tokenizer_of_file, tokenizer_of_gguf
from intact.lm.vocabularies.special_tokens import SpecialTokens

EXPORTED = "genai_config.json"
DYNAMIC = "dynamic-int8"


@tidying()  # the graph that a model is compiled from takes more memory than the model
def load_model(
    path: str | os.PathLike[str] | Any, *, weights: str = "keep", block: int = 32,
    bits_of: Mapping[str, str] | None = None, activations: str = DYNAMIC, positions: int | None = None,
    threads: int | None = None,
    tokenizer: str | os.PathLike[str] | Any = None, text: str | None = None, method: str = "auto",
    bits_budget: float | None = None, time_budget: float | None = None, progress: bool = False,
    backend: str = "cpu", cache: str | None = None, rotate: bool = False, accept: Collection[str] = (),
    reuse: bool = True,
) -> LanguageModel:  # fmt: skip
    """Open a language model.

    Args:
        path: A GGUF file, a folder with config.json and safetensors files, or one that `save_model` wrote. An
            ONNX file, or a folder with one, as onnxruntime-genai's builder, `optimum` or torch's exporters
            write it. Or a torch module of transformers, a causal language model.
        weights, block, bits_of: As for `weight_encoder`; a saved model has its own. Of an ONNX file float
            weights are rounded, and `bits_of` may name "head" and "embedding" alone.
        activations: What layers with codes multiply: "dynamic-int8", codes in blocks with ranges of their
            own; or "float", slower, where nothing but the weights is rounded.
        positions: The longest sequence; None: what the model was trained for, at most 8192.
        threads: Of a run; None: as many as the process may use.
        tokenizer: A tokenizer.json in place of the model's own; beside a module also a fast tokenizer of
            transformers.
        text: Codes are chosen by what layers read on it: such as the model will see. None: the nearest ones.
        method: How, as for `intact.ptq.quantize_weights`: "awq", "gptq", "auto".
        bits_budget: The most bits for each weight on average, scales of 16 bits included. Layers get 2 to 8
            bits, more where answers lose most without them: on `text`, or by the errors of weights. The head
            has a choice of its own if `bits_of` names it, and is no part of the budget then.
        time_budget: The same as milliseconds of a token on this machine, for the products with all weights.
        progress: Show a progress bar for that.
        backend: "cpu", or "reference".
        cache: How keys and values are kept: "float32", "float16", or "int8" with a scale for each token and
            head; None: "float32", or those of a saved model.
        rotate: Rotate the residual stream and the values (`RotatedWeights`) before codes are chosen: the same
            function, with outliers spread over all channels.
        accept: Fields of configurations and metadata that pass although nothing computes what they say.
        reuse: Take what an earlier start made of the same files, and keep what this one makes
            (`prepared_models`).
    Raises:
        FileFormatError, FileAccessError: A file is damaged, or cannot be read.
        UnsupportedError: A family, format or tokenizer that is not read.
        QuantValueError: A setting is wrong.
    """
    if not is_module(path):
        require_path(path)
        folder = Path(path)
        if (folder / SETTINGS).is_file():
            return load_saved(
                folder, threads, positions, weights=weights, block=block, bits_of=bits_of,
                activations=activations, tokenizer=tokenizer, text=text, method=method,
                bits_budget=bits_budget, time_budget=time_budget, backend=backend, cache=cache, rotate=rotate,
            )  # fmt: skip
        exported = _exported_file(folder)
        if exported is not None:
            cache = cache or "float32"
            if (bits_budget, time_budget) != (None, None) or rotate:
                raise QuantValueError(
                    "bits_budget, time_budget, rotate", "one of them for an ONNX file", "none",
                    "load the Hugging Face folder that it was exported from",
                )  # fmt: skip
            return _load_exported(
                exported, weights=weights, block=block, bits_of=bits_of or {}, activations=activations,
                positions=positions, threads=threads, tokenizer=tokenizer, text=text, method=method,
                progress=progress, backend=backend, cache=cache, accept=accept,
            )  # fmt: skip
    options: dict[str, Any] = {
        "weights": weights, "block": block, "bits_of": dict(bits_of or {}), "activations": activations,
        "positions": positions, "text": text, "method": method, "bits_budget": bits_budget,
        "time_budget": time_budget, "cache": cache or "float32", "rotate": rotate, "accept": sorted(accept),
    }  # fmt: skip
    place = _find_place(path, options) if reuse and backend == "cpu" and tokenizer is None else None
    earlier = None if place is None else place.load(threads)
    if earlier is not None:
        return earlier
    model = _load_decoder(
        path, threads=threads, tokenizer=tokenizer, progress=progress, backend=backend, **options
    )
    if place is not None:
        place.keep(model)
    return model


def _find_place(path: Any, options: Mapping[str, Any]) -> PreparedModel | None:
    """Return where what an earlier start made of a model may lie; None for what is made anew each time.

    That are floats, which are mapped as they are; what a clock decided; and codes that are rounded a second
    time, of which a warning tells each time.
    """
    if is_module(path) or options["weights"] == "float32" or options["time_budget"] is not None:
        return None
    folder = Path(path)
    is_gguf = folder.suffix == ".gguf" or (folder.is_dir() and any(folder.glob("*.gguf")))
    return None if is_gguf and options["weights"] != "keep" else PreparedModel.of(folder, options)


def _load_decoder(
    path: Any, *, weights: str, block: int, bits_of: Mapping[str, str], activations: str,
    positions: int | None, threads: int | None, tokenizer: Any, text: str | None, method: str,
    bits_budget: float | None, time_budget: float | None, progress: bool, backend: str, cache: str,
    rotate: bool, accept: Collection[str],
) -> LanguageModel:  # fmt: skip
    """Load a GGUF file, a folder of Hugging Face or a module."""
    # What makes graphs takes 20 MB, which a saved model needs not.
    from intact.graph import narrow_caches
    from intact.lm.decoders.decoder_weights import DecoderWeights
    from intact.lm.decoders.rotated_weights import RotatedWeights

    source = DecoderWeights(path, accept)
    usual = min(source.config.context, source.config.longest or LONGEST, LONGEST)
    count = usual if positions is None else positions
    _check_choices(activations, text, count)
    if source.config.linear_biases is not None and cache != "float32":
        # Keys hold the bias of their position beside their elements: a scale for both would cover thousands.
        raise QuantValueError(
            "cache", f"{cache} for {source.config.family}", "float32: keys hold the bias of their position",
            "leave cache out",
        )  # fmt: skip
    _warn_of_second_rounding(source.path, source.code_bits, weights, block)
    words, templates = _words_and_templates(path, source.metadata, source.description, tokenizer)
    model = _quantized_decoder(
        RotatedWeights(source) if rotate else source, count, words, weights=weights, block=block,
        bits_of=bits_of, text=text, method=method, budgets=(bits_budget, time_budget), threads=threads,
        in_floats=activations != DYNAMIC, progress=progress,
    )  # fmt: skip
    narrow_caches(model, cache)
    engine = compile_model(model, threads=threads, backend=backend)
    settings: dict[str, str | int | None] = {
        "family": source.config.family, "weights": weights, "block": block, "cache": cache,
        "bits_budget": None if bits_budget is None else f"{bits_budget:g}",
        "time_budget": None if time_budget is None else f"{time_budget:g}",
        "activations": None if activations == DYNAMIC else activations,
        "method": None if text is None else method, "rotate": "yes" if rotate else None,
    }  # fmt: skip
    chosen = {name: value for name, value in settings.items() if value is not None}
    return LanguageModel(engine, count, words, templates, chosen, source.description)


def _warn_of_second_rounding(path: Path, own: float, weights: str, block: int) -> None:
    """Warn where a format is asked for although the file has codes: it is larger, or loses more."""
    digits = weights.lstrip("uint")
    if not own or weights in ("keep", "float32") or not digits.isdigit():
        return
    bits = int(digits) + 16 / max(block, 1)
    size = "not smaller" if bits >= own else "smaller"
    warnings.warn(
        f"'{path}' holds codes of {own:.2f} bits for each weight. {weights} in blocks of {block} has "
        f"{bits:.2f}, which is {size}, and rounds them a second time: weights='keep' loses less.",
        SecondRoundingWarning, stacklevel=5,
    )  # fmt: skip


def stored_code_bits(path: str | os.PathLike[str]) -> float:
    """Return the bits of a weight in the codes of a GGUF file, with scales; 0.0 for other models, and floats.

    Raises:
        FileFormatError, FileAccessError, UnsupportedError: As `load_model`.
    """
    folder = Path(path)
    if (folder / SETTINGS).is_file() or _exported_file(folder) is not None:
        return 0.0
    from intact.lm.description.foreign_paths import refuse_foreign

    refuse_foreign(folder)
    files = open_weights(folder)
    return files.code_bits() if isinstance(files, GgufWeights) else 0.0


def _check_choices(activations: str, text: str | None, positions: int) -> None:
    """Refuse settings that no decoder has.

    Raises:
        QuantValueError: Names one.
    """
    if activations not in (DYNAMIC, "float"):
        raise QuantValueError(
            "activations", f"{activations!r:.40}", f"{DYNAMIC} or float", f"choose {DYNAMIC}"
        )
    if text is not None and activations != DYNAMIC:
        raise QuantValueError("activations", activations, f"{DYNAMIC} with text=", "leave one of them out")
    if not 1 <= positions <= 2**24:
        raise QuantValueError(
            "positions", str(positions), "1 or more", "give the longest sequence that you need"
        )


def describe_model(path: str | os.PathLike[str], accept: Collection[str] = ()) -> ModelDescription:
    """Return what the files of a language model say of it; no weight is read.

    Args:
        path: As for `load_model`.
        accept: Fields that pass although nothing computes what they say.
    Raises:
        FileFormatError, FileAccessError, UnsupportedError: As `load_model`.
    """
    folder = Path(path)
    if (folder / SETTINGS).is_file():
        return saved_description(folder)
    exported = _exported_file(folder)
    if exported is not None:
        from intact.lm.decoders.exported_decoder import exported_configuration
        from intact.lm.description.read_description import describe_exported

        family, config = exported_configuration(exported)
        return describe_exported(exported.parent, family, config, accept)
    from intact.lm.decoders.decoder_weights import DecoderWeights

    return DecoderWeights(path, accept).description


def _quantized_decoder(
    source: Any, positions: int, words: Tokenizer | None, *, weights: str, block: int,
    bits_of: Mapping[str, str], text: str | None, method: str, budgets: tuple[float | None, float | None],
    threads: int | None, in_floats: bool, progress: bool,
) -> Any:  # fmt: skip
    """Return the graph of a decoder with the codes that `load_model` was asked for."""
    from intact.lm.decoders.calibrated_weights import WINDOW, WINDOWS, calibrated_model
    from intact.lm.decoders.decoder_graph import decoder_model
    from intact.lm.decoders.weight_encoder import weight_encoder

    choices, windows = dict(bits_of), []
    if text is not None:
        windows = cut_windows(_words_for(text, words), min(WINDOW, positions), WINDOWS)
    if budgets != (None, None):
        from intact.lm.decoders.mixed_weights import WeightBudget, choose_bits

        choices |= choose_bits(
            source, positions, windows, format=weights, block=block, head=choices.get("head"),
            budget=WeightBudget(*budgets, threads), progress=progress,
        )  # fmt: skip
    if text is None:
        encode = weight_encoder(weights, block, choices)
        return decoder_model(source, positions, encode, in_floats=in_floats)
    return calibrated_model(
        source, positions, windows, format=weights, block=block, method=method, bits_of=choices,
        progress=progress,
    )  # fmt: skip


def _exported_file(path: Path) -> Path | None:
    """Return the ONNX file, or the genai_config.json that names it, where a path means one.

    Raises:
        FileFormatError: A folder holds several ONNX files, and none that is called model.onnx.
    """
    if path.suffix == ".onnx":
        return path
    if (path / EXPORTED).is_file():
        return path / EXPORTED
    if not path.is_dir() or any(path.glob("*.safetensors")):
        return None
    files = sorted({*path.glob("*.onnx"), *path.glob("onnx/*.onnx")})
    named = [file for file in files if file.name == "model.onnx"]
    if not named and len(files) > 1:
        names = ", ".join(file.name for file in files[:4])
        raise FileFormatError(str(path), f"{names}", "one model.onnx", "give the path of the file itself")
    return next(iter(named or files), None)


def _load_exported(
    path: Path, *, weights: str, block: int, bits_of: Mapping[str, str], activations: str,
    positions: int | None, threads: int | None, tokenizer: str | os.PathLike[str] | None, text: str | None,
    method: str, progress: bool, backend: str, cache: str, accept: Collection[str],
) -> LanguageModel:  # fmt: skip
    """Load an ONNX file, or the one that a genai_config.json names."""
    from intact.graph import narrow_caches
    from intact.lm.decoders.calibrated_weights import WINDOW, WINDOWS
    from intact.lm.decoders.exported_decoder import read_exported_decoder, read_onnx_decoder
    from intact.lm.decoders.exported_weights import quantize_exported
    from intact.lm.description.read_description import describe_exported

    read = read_exported_decoder if path.name == EXPORTED else read_onnx_decoder
    source, folder = read(path, positions), path.parent
    description = describe_exported(folder, source.family, source.json, accept)
    words = _tokenizer(folder, {}, description.special_tokens, tokenizer)
    model, windows = source.model, []
    if weights == "keep" and (activations != DYNAMIC or text is not None):
        raise QuantValueError(
            "weights", "keep, with activations or a text", "the numerics of the ONNX file alone",
            "choose a format of weights, such as int4",
        )  # fmt: skip
    if text is not None:
        windows = cut_windows(_words_for(text, words), min(WINDOW, source.positions), WINDOWS)
    model = quantize_exported(
        model, windows, format=weights, block=block, method=method, activations=activations, bits_of=bits_of,
        progress=progress,
    )  # fmt: skip
    narrow_caches(model, cache)
    engine = compile_model(model, threads=threads, backend=backend)
    settings: dict[str, str | int] = {"family": source.family, "weights": weights, "cache": cache}
    if weights != "keep":
        settings["block"] = block
    templates = description.chat_templates
    return LanguageModel(engine, source.positions, words, templates, settings, description)


def _words_for(text: str, words: Tokenizer | None) -> list[int]:
    """Return the tokens of a text."""
    if words is None:
        raise QuantValueError("text", "no tokenizer for it", "one", "pass tokenizer=")
    return words.encode(text)


def _tokenizer(
    folder: Path, metadata: Mapping[str, Any], tokens: SpecialTokens, tokenizer: str | os.PathLike[str] | None
) -> Tokenizer | None:
    """Return the tokenizer of a GGUF file with `metadata`, or of a folder with `tokens`, or the one given."""
    if metadata and tokenizer is None:
        return tokenizer_of_gguf(metadata, str(folder))
    path = folder / TOKENIZER if tokenizer is None else Path(tokenizer)
    if tokenizer is None and not path.is_file():
        return None
    return tokenizer_of_file(path, _end_fields(tokens))


def _end_fields(tokens: SpecialTokens) -> dict[str, Any]:
    """Return the end tokens as `tokenizer_of_file` reads them."""
    return {"eos_token_id": list(tokens.ends), "eos_token": tokens.end_texts}


def _words_and_templates(
    path: Any, metadata: Mapping[str, Any], description: ModelDescription, tokenizer: Any
) -> tuple[Tokenizer | None, ChatTemplates]:
    """Return the tokenizer and the chat templates of a file, a folder or a module."""
    tokens = description.special_tokens
    own = _end_fields(tokens)
    if tokenizer is not None and not isinstance(tokenizer, str | os.PathLike):
        return module_tokenizer(tokenizer, own), tokenizer_chat_templates(tokenizer)
    if is_module(path):
        if tokenizer is None:
            return None, ChatTemplates()
        sources = ModelFiles(Path(tokenizer).parent)
        templates = folder_chat_templates(sources, description.family)
        return tokenizer_of_file(Path(tokenizer), own), templates
    return _tokenizer(Path(path), metadata, tokens, tokenizer), description.chat_templates
