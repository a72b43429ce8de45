"""Decoders that onnxruntime-genai's builder exported, with the inputs and outputs of `decoder_model`.

The builder's graphs take a mask of positions and return logits behind every token and caches that grow. Here
they take the numbers that they work out of the mask, gather the rows whose logits are wanted in front of the
head, and write caches in place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intact.errors import FileFormatError, UnsupportedError
from intact.graph import (
    Inserter,
    Model,
    Namer,
    Node,
    Value,
    input_of,
    last_size,
    load,
    prune,
    refresh_shapes,
    set_shape,
)
from intact.reading import read_bytes

_ATTENTION, _LAST, _TOTAL = "GroupQueryAttention", 5, 6
_PRODUCTS = ("MatMulNBits", "MatMul", "Gemm")
_ROW_BY_ROW = ("Mul", "Div", "Tanh", "Cast", "Add")
"""Operators between a head's product and logits: scales and caps."""
_FIX = "export the model with onnxruntime-genai's builder, for the CPU"


@dataclass(frozen=True)
class ExportedDecoder:
    """A folder that the builder wrote.

    Attributes:
        model: An onnx-ir model with the inputs and outputs of `decoder_model`.
        family: What its configuration calls it.
        positions: The longest sequence.
        json: The configuration, whose ``eos_token_id`` and ``bos_token_id`` a tokenizer wants.
    """

    model: Any
    family: str
    positions: int
    json: dict[str, Any]


def read_exported_decoder(path: Path) -> ExportedDecoder:
    """Read the ONNX file that a genai_config.json names, beside it.

    Args:
        path: The genai_config.json.
    Raises:
        FileFormatError, FileAccessError: A file is damaged, or cannot be read.
        UnsupportedError: The model has other inputs than tokens, a mask and caches, or attends otherwise.
    """
    try:
        config = json.loads(read_bytes(path))["model"]
        decoder = config["decoder"]
        inputs, outputs = decoder["inputs"], decoder["outputs"]
        file, positions, head_size = decoder["filename"], config["context_length"], decoder["head_size"]
        names = {
            "tokens": inputs["input_ids"], "mask": inputs["attention_mask"], "logits": outputs["logits"],
            "keys": inputs["past_key_names"], "values": inputs["past_value_names"],
            "new_keys": outputs["present_key_names"], "new_values": outputs["present_value_names"],
        }  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(str(path), f"'{error}'", "what the builder writes", _FIX) from error
    fits = all(isinstance(name, str) for name in (*names.values(), file, config.get("type", "")))
    fits = fits and Path(file).name == file and isinstance(head_size, int) and head_size > 0
    if not fits or not isinstance(positions, int) or not 0 < positions <= 2**24:
        raise FileFormatError(str(path), "other settings", "what the builder writes", _FIX)
    model = load(path.parent / file)
    _Rewrite(model, names, head_size, str(path.parent / file)).apply()
    return ExportedDecoder(model, str(config.get("type", "onnx")), positions, config)


class _Rewrite:
    """Gives one graph its other inputs and outputs, in place."""

    def __init__(self, model: Model, names: dict[str, str], head_size: int, where: str) -> None:
        self._head_size = head_size
        self._model, self._graph, self._where = model, model.graph, where
        self._names = names
        self._namer = Namer(model.graph)

    def apply(self) -> None:
        attentions = [node for node in self._graph if node.op_type == _ATTENTION]
        if not attentions:
            raise self._refuse("no GroupQueryAttention", "layers with caches")
        self._take_lengths(attentions)
        tokens = self._find(self._names["tokens"])
        tokens.name = "tokens"
        set_shape(tokens, ["batch", "tokens"])
        self._rename_caches(self._graph.inputs, ("keys", "values"), "")
        self._rename_caches(self._graph.outputs, ("new_keys", "new_values"), "new_")
        self._gather_rows()
        prune(self._model)
        self._drop_mask()
        refresh_shapes(self._model)

    def _take_lengths(self, attentions: list[Node]) -> None:
        """Read the places of the last tokens, and the longest sequence, from inputs."""
        added: dict[int, Value] = {}
        for node in attentions:
            for index, (name, sizes) in {_LAST: ("last", ["batch"]), _TOTAL: ("total", [])}.items():
                before = input_of(node, index)
                if before is None:
                    raise self._refuse(
                        f"node '{node.name}' without lengths", "a GroupQueryAttention with them"
                    )
                if index not in added:
                    added[index] = Value(name=name, type=before.type)
                    set_shape(added[index], sizes)
                    self._graph.inputs.append(added[index])
                node.replace_input_with(index, added[index])

    def _find(self, name: str) -> Value:
        """Return the input of this name."""
        for value in self._graph.inputs:
            if value.name == name:
                return value
        raise self._refuse(f"no '{name}'", "the inputs that its configuration names")

    def _rename_caches(self, values: Any, kinds: tuple[str, str], prefix: str) -> None:
        for kind in kinds:
            pattern = re.compile(re.escape(self._names[kind]).replace("%d", r"(\d{1,6})"))
            for value in values:
                match = pattern.fullmatch(value.name or "")
                if match is None:
                    continue
                value.name = f"{kind}.{match[1]}"
                if value.shape is None or len(value.shape) != 4:
                    raise self._refuse(f"'{value.name}' without 4 axes", "[batch, heads, room, size]")
                _, heads, _, size = value.shape
                size = size if isinstance(size, int) else self._head_size  # the builder may leave it open
                set_shape(value, ["batch", heads if isinstance(heads, int) else None, "room", size])
        unknown = {value.name for value in values if not str(value.name).startswith((*kinds, "new_"))}
        own = {"tokens", "last", "total", self._names["mask"], self._names["logits"]}
        if unknown - own:
            raise self._refuse(f"'{min(unknown - own)}'", "tokens, a mask and caches; logits and caches")

    def _gather_rows(self) -> None:
        """Gather the wanted rows in front of the head's product."""
        logits = next((v for v in self._graph.outputs if v.name == self._names["logits"]), None)
        if logits is None:
            raise self._refuse(f"no '{self._names['logits']}'", "the outputs that its configuration names")
        node, path = logits.producer(), [logits]
        while node is not None and node.op_type in _ROW_BY_ROW:
            path += [value for value in node.inputs[:2] if value is not None and value.const_value is None][
                :1
            ]
            node = path[-1].producer() if path[-1] not in node.outputs else None
        x = None if node is None or node.op_type not in _PRODUCTS else node.inputs[0]
        if node is None or x is None or logits.uses():
            raise self._refuse("logits of another kind", "those of a linear layer")
        rows = Value(name="rows", type=self._find("tokens").type)
        set_shape(rows, ["wanted"])
        self._graph.inputs.append(rows)
        insert = Inserter(self._graph, node, self._namer)
        flat = insert.node("Flatten", [x], "wanted.flat", dtype=x.dtype, shape=None, axis=2)
        wanted = insert.node("Gather", [flat, rows], "wanted.rows", dtype=x.dtype, shape=None, axis=0)
        node.replace_input_with(0, wanted)
        logits.name = "logits"
        for value in path:
            set_shape(value, ["wanted", last_size(value)])

    def _drop_mask(self) -> None:
        for value in list(self._graph.inputs):
            if value.name != self._names["mask"]:
                continue
            for use in value.uses():
                raise self._refuse(f"node '{use.node.name}' that reads the mask", "lengths alone")
            self._graph.inputs.remove(value)

    def _refuse(self, got: str, want: str) -> UnsupportedError:
        return UnsupportedError(self._where, got, want, _FIX)
