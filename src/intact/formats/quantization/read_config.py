"""Finds the quantization_config of a folder, and the codec that reads its layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from intact.errors import FileFormatError, UnsupportedError
from intact.formats.metadata_fields import MetadataFields
from intact.formats.quantization.compressed_tensors import (
    NAIVE,
    PACKED,
    check_compressed_tensors,
    packed_codec,
)
from intact.formats.quantization.integer_codes import (
    auto_round_codec,
    auto_round_packing,
    awq_codec,
    check_left_out,
    gptq_codec,
    unknown_method,
)
from intact.formats.quantization.layer_facts import LayerFacts

KEY, CONFIG_FILE, OLD_FILE = "quantization_config", "config.json", "quantize_config.json"
_AUTO_ROUND = ("auto-round", "auto_round", "intel/auto-round")
_KNOWN = "fields that are used, or known to change nothing"


class QuantizationConfig:
    """Reads what a folder says of the codes of its layers.

    Args:
        config: Contents of config.json.
        old: Contents of quantize_config.json, empty without it.
        accepted: Fields that the user lets pass where they would be refused.

    Attributes:
        codec: Of `LAYER_CODECS`, by the tensors that layers have; "safetensors": no layer has codes.

    Raises:
        UnsupportedError: A method that is not read.
        FileFormatError: Both files say something of the layers, and contradict each other.
    """

    def __init__(
        self, config: Mapping[str, Any], old: Mapping[str, Any], accepted: Collection[str] = ()
    ) -> None:
        own = config.get(KEY)
        if own is not None and not isinstance(own, dict):
            raise FileFormatError(CONFIG_FILE, f"{KEY} {own!r:.60}", "an object", "correct config.json")
        own = own or {}
        prefix = f"{KEY}." if own or not old else ""
        file = CONFIG_FILE if own or not old else OLD_FILE
        self.fields = MetadataFields({**old, **own}, file, accepted, prefix)
        for key in old.keys() & own.keys():
            if old[key] != own[key] and not _is_note(key):
                raise self.fields.contradiction(key, f"{OLD_FILE} has {old[key]!r:.60}", "one value in both")
        self._method = self._read_method() if own or old else ""
        self.codec = self._codec() if self._method else "safetensors"

    def finish(self, layers: Sequence[LayerFacts]) -> str:
        """Hold the fields to the tensors of the layers, and return the codec of `LAYER_CODECS`.

        Args:
            layers: All layers with codes whose tensors fit each other.
        Raises:
            UnsupportedError: A field that is not known, or says what is not computed.
            FileFormatError: A field contradicts another one, or the tensors.
        """
        codec = self.codec
        if self._method == "gptq":
            codec = gptq_codec(self.fields, layers)
        elif self._method == "awq":
            codec = awq_codec(self.fields, layers)
        elif self._method == "compressed-tensors":
            check_compressed_tensors(self.fields, layers)
        elif self._method == "mxfp4":
            check_left_out(self.fields, "modules_to_not_convert", layers)
            self.fields.harmless({"dequantize": "codes are kept or not as the one who opens the model says"})
        elif self._method:
            codec = auto_round_codec(self.fields, layers, codec)
        self.fields.refuse_rest(_KNOWN)
        return codec

    def _read_method(self) -> str:
        fields = self.fields
        keys = [key for key in ("quant_method", "quantization_method", "method") if key in fields]
        named = [fields.text(key).lower() for key in keys]
        if len(set(named)) > 1:
            raise fields.contradiction(keys[1], f"{keys[0]} = {named[0]!r}", "one method")
        method = named[0] if named else "gptq" if "bits" in fields and "mode" not in fields else ""
        if method not in (*_AUTO_ROUND, "gptq", "awq", "compressed-tensors", "mxfp4"):
            raise unknown_method(fields, method)
        return method

    def _codec(self) -> str:
        if self._method in _AUTO_ROUND:
            return auto_round_packing(self.fields)
        if self._method == "awq" and str(self.fields.peek("version") or "gemm").lower() != "gemm":
            self.fields.refuse("version", "gemm")
        if self._method != "compressed-tensors":
            return self._method
        codec = packed_codec(self.fields)
        if codec is None:
            form = self.fields.peek("format")
            raise UnsupportedError(
                self.fields.file, f"quant_method 'compressed-tensors' with format {form!r:.60}",
                ", ".join((*PACKED, *NAIVE)), "export the model in one of these",
            )  # fmt: skip
        return codec


def _is_note(key: str) -> bool:
    """Return whether a field only says where the file comes from."""
    return key in ("model_name_or_path", "model_file_base_name", "meta", "quantizer")
