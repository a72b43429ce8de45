"""The weights of a torch module of the package transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.formats import FieldUse
from intact.lm.tokenizer import Tokenizer, tokenizer_of_text

_TOKENS = ("eos_token_id", "bos_token_id")


def is_module(source: object) -> bool:
    """Return whether `source` is a torch module."""
    return callable(getattr(source, "state_dict", None))


class ModuleWeights:
    """Gives the weights of a causal language model, as `WeightFiles` does those of files.

    Args:
        module: With a `config` as transformers has it. It is only read.

    Attributes:
        where: Its class.
        format, names, config: As of `WeightFiles`.

    Raises:
        UnsupportedError: It has no such configuration, or its weights have codes.
    """

    format = "module"

    def __init__(self, module: Any) -> None:
        self.where = f"module '{type(module).__name__}'"
        to_dict = getattr(getattr(module, "config", None), "to_dict", None)
        config = to_dict() if callable(to_dict) else None
        if not isinstance(config, dict):
            raise UnsupportedError(
                self.where, "no config", "a causal language model of transformers",
                "quantize it by intact.torch, or export it to ONNX",
            )  # fmt: skip
        self.config: dict[str, Any] = _with_tokens(config, getattr(module, "generation_config", None))
        self.field_uses: tuple[FieldUse, ...] = ()
        self._tensors: Mapping[str, Any] = module.state_dict()
        self.names = tuple(self._tensors)

    def read(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as float32.

        Raises:
            QuantValueError: There is no such tensor.
            UnsupportedError: It is none of floats, or has no values.
        """
        tensor = self._tensors.get(name)
        if tensor is None:
            raise QuantValueError("tensor", f"'{name}'", f"a name of {self.where}", "see .names")
        if getattr(tensor, "is_meta", False):
            raise UnsupportedError(
                f"tensor '{name}'", "no values", "weights", "load the module's weights first"
            )
        is_float = getattr(tensor, "is_floating_point", None)
        if is_float is None or not is_float():
            dtype = getattr(tensor, "dtype", type(tensor).__name__)
            raise UnsupportedError(f"tensor '{name}'", f"{dtype}", "floats", "load the module without codes")
        return np.asarray(tensor.detach().float().cpu().numpy())


def module_tokenizer(tokenizer: Any, config: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer that a tokenizer of transformers is built on.

    Args:
        tokenizer: A fast one.
        config: Of the model: where both name end tokens, all count.
    Raises:
        UnsupportedError: It is not built on the package tokenizers.
        FileFormatError: Its text is none.
    """
    to_str = getattr(getattr(tokenizer, "backend_tokenizer", None), "to_str", None)
    if not callable(to_str):
        raise UnsupportedError(
            "tokenizer", type(tokenizer).__name__, "a fast one of transformers, or a path of tokenizer.json",
            "load it by AutoTokenizer with use_fast=True",
        )  # fmt: skip
    ends = [config.get("eos_token_id"), getattr(tokenizer, "eos_token_id", None)]
    flat = [end for part in ends for end in (part if isinstance(part, list) else [part])]
    eos = sorted({end for end in flat if isinstance(end, int)})
    begin = getattr(tokenizer, "bos_token_id", None)
    return tokenizer_of_text(to_str(), {"eos_token_id": eos, "bos_token_id": begin})


def _with_tokens(config: dict[str, Any], generation: Any) -> dict[str, Any]:
    """Return the configuration with the end tokens of generation, which chats need."""
    tokens = {name: getattr(generation, name, None) for name in _TOKENS}
    return config | {name: value for name, value in tokens.items() if value is not None}
