"""Decoders that were exported to ONNX, with the inputs and outputs of `decoder_model`.

Files of onnxruntime-genai's builder, of `optimum` and of torch's exporters take a mask of positions and
return logits behind every token and caches that grow. Here they take the numbers that they work out of the
mask, gather the rows whose logits are wanted in front of the head, and write caches in place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.graph import (
    DataType,
    Inserter,
    Model,
    Namer,
    Node,
    Value,
    input_of,
    last_size,
    load,
    pipelines,
    prune,
    refresh_shapes,
    run_stages,
    set_shape,
    specialize,
)
from intact.lm.decoders.cached_decoder import DecoderPorts, simplify_for_caches, write_caches
from intact.lm.sequence_cache import LONGEST, STATE_ROWS
from intact.reading import read_bytes

_ATTENTION, _LAST, _TOTAL, _COSINES = "GroupQueryAttention", 5, 6, 7
_PRODUCTS = ("MatMulNBits", "MatMulBnb4", "MatMul", "Gemm")
_ROW_BY_ROW = ("Mul", "Div", "Tanh", "Cast", "Add", "Identity")
"""Operators between a head's product and logits: scales and caps."""
_FIX = "export the model with onnxruntime-genai's builder, for the CPU"
_CACHE_BRANCH = "use_cache_branch"
"""Input of merged decoders."""
_WIDTHS = ("hidden_size", "n_embd")
_PLAIN = (*pipelines.IMPORT, pipelines.ATTENTION, pipelines.LIFT_CONSTANTS, pipelines.PRUNE)
"""Passes that bring attention to plain operators, and constants to initializers."""
_USUAL_NAMES = {
    "tokens": "input_ids", "mask": "attention_mask", "positions": "position_ids", "logits": "logits",
    "keys": "past_key_values.%d.key", "values": "past_key_values.%d.value", "new_keys": "present.%d.key",
    "new_values": "present.%d.value",
}  # fmt: skip
"""Names that `optimum` gives inputs and outputs."""
_CONTEXTS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
"""Names that configurations of transformers have for the longest sequence."""
_HEADS = ("num_attention_heads", "n_head")
"""Names that they have for the number of heads of queries."""
_LONGEST_MASK = 2048
"""Positions by default, at most, of files without a cache: masks are as wide."""
_MOST = 2**24


@dataclass(frozen=True)
class ExportedDecoder:
    """A decoder in the form that `LanguageModel` runs.

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


@dataclass(frozen=True)
class _HeadSizes:
    """Sizes of heads by a configuration; 0: it says nothing.

    Attributes:
        size: Of each.
        heads: Of queries.
    """

    size: int = 0
    heads: int = 0


def read_exported_decoder(path: Path, positions: int | None = None) -> ExportedDecoder:
    """Read the ONNX file that a genai_config.json names, beside it.

    Args:
        path: The genai_config.json.
        positions: The longest sequence; None: what the configuration says.
    Raises:
        FileFormatError, FileAccessError: A file is damaged, or cannot be read.
        UnsupportedError: The model has other inputs than tokens, a mask and caches, or attends otherwise.
    """
    try:
        config = json.loads(read_bytes(path))["model"]
        decoder = config["decoder"]
        inputs, outputs = decoder["inputs"], decoder["outputs"]
        file, context, head_size = decoder["filename"], config["context_length"], decoder["head_size"]
        names = {
            "tokens": inputs["input_ids"], "mask": inputs["attention_mask"], "logits": outputs["logits"],
            "keys": inputs["past_key_names"], "values": inputs["past_value_names"],
            "new_keys": outputs["present_key_names"], "new_values": outputs["present_value_names"],
            "positions": inputs.get("position_ids", _USUAL_NAMES["positions"]),
        }  # fmt: skip
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(str(path), f"'{error}'", "what the builder writes", _FIX) from error
    fits = all(isinstance(name, str) for name in (*names.values(), file, config.get("type", "")))
    fits = fits and Path(file).name == file and isinstance(head_size, int) and head_size > 0
    if not fits or not isinstance(context, int) or not 0 < context <= _MOST:
        raise FileFormatError(str(path), "other settings", "what the builder writes", _FIX)
    sizes = _HeadSizes(head_size)
    return _decoder_of_file(path.parent / file, names, sizes, context, positions, config, "type")


def read_onnx_decoder(path: Path, positions: int | None = None) -> ExportedDecoder:
    """Read an ONNX file with the inputs and outputs of `optimum`, and the config.json beside it or above.

    Args:
        path: The ONNX file.
        positions: The longest sequence; None: what the model was trained for, at most 8192.
    Raises:
        FileFormatError, FileAccessError, UnsupportedError: As `read_exported_decoder`.
    """
    config = _config_beside(path)
    context = min(_number(config, _CONTEXTS) or max(positions or 0, LONGEST), _MOST)
    heads = _number(config, _HEADS)
    head_size = _number(config, ("head_dim",)) or _number(config, _WIDTHS) // max(heads, 1)
    return _decoder_of_file(
        path, _USUAL_NAMES, _HeadSizes(head_size, heads), context, positions, config, "model_type"
    )


def exported_configuration(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the family and the configuration of an exported decoder.

    Args:
        path: Its ONNX file, or the genai_config.json that names it.
    Raises:
        FileFormatError, FileAccessError: A file is damaged, or cannot be read.
    """
    if path.suffix == ".onnx":
        config = _config_beside(path)
        return str(config.get("model_type", "onnx")), config
    model = _read_object(path).get("model")
    if not isinstance(model, dict):
        raise FileFormatError(str(path), "no model", "what the builder writes", _FIX)
    return str(model.get("type", "onnx")), model


def _config_beside(path: Path) -> dict[str, Any]:
    """Return what the config.json beside an ONNX file or above it says; nothing where there is none."""
    for folder in (path.parent, path.parent.parent):
        if (folder / "config.json").is_file():
            return _read_object(folder / "config.json")
    return {}


def _number(config: dict[str, Any], names: Sequence[str]) -> int:
    """Return the first number above 0 under one of these names; 0 for none."""
    numbers = (config.get(name) for name in names)
    return next((number for number in numbers if isinstance(number, int) and number > 0), 0)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        record: Any = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(str(path), f"'{error}'", "JSON", "export the model again") from error
    if not isinstance(record, dict):
        raise FileFormatError(str(path), "no object", "what transformers writes", "export the model again")
    return record


def _decoder_of_file(
    path: Path, names: dict[str, str], sizes: _HeadSizes, context: int, positions: int | None,
    config: dict[str, Any], family: str,
) -> ExportedDecoder:  # fmt: skip
    if positions is not None and not 1 <= positions <= context:
        raise QuantValueError(
            "positions", str(positions), f"1 to {context}, as the model has", "ask for fewer"
        )
    rewrite = _Rewrite(load(path), names, sizes, str(path))
    rewrite.apply(context, positions)
    return ExportedDecoder(rewrite.model, str(config.get(family, "onnx")), rewrite.positions, config)


class _Rewrite:
    """Gives one graph its other inputs and outputs, in place."""

    def __init__(self, model: Model, names: dict[str, str], sizes: _HeadSizes, where: str) -> None:
        self.model, self._graph, self._where = model, model.graph, where
        self._names, self._sizes = names, sizes
        self.positions = 0

    def apply(self, context: int, positions: int | None) -> None:
        """Rewrite the graph for sequences of `positions` tokens; None: of `context`, but not too many."""
        self._choose_branch()
        attentions = [node for node in self._graph if node.op_type == _ATTENTION]
        tokens = self._find(self._names["tokens"])
        if attentions:
            self.positions = self._positions_with_angles(attentions, context, positions)
            self._take_lengths(attentions)
            self._rename_caches(self._graph.inputs, ("keys", "values"), "")
            self._rename_caches(self._graph.outputs, ("new_keys", "new_values"), "new_")
        else:
            self._write_caches(tokens, context, positions)
        tokens.name, tokens.dtype = "tokens", DataType.INT64
        set_shape(tokens, ["batch", "tokens"])
        self._gather_rows()
        prune(self.model)
        self._drop_inputs()
        refresh_shapes(self.model)

    def _choose_branch(self) -> None:
        """Take the branch with a cache, where a file holds a decoder with and one without."""
        if all(value.name != _CACHE_BRANCH for value in self._graph.inputs):
            return
        specialize(self.model, {}, {_CACHE_BRANCH: np.array([True])})
        self.model = load(self.model)  # a copy, without the nodes of the other branch, which read inputs
        self._graph = self.model.graph
        choice = self._find(_CACHE_BRANCH)
        if choice.uses():
            raise self._refuse(f"'{_CACHE_BRANCH}' of another kind", "an If of two decoders")
        self._graph.inputs.remove(choice)

    def _positions_with_angles(self, attentions: list[Node], context: int, positions: int | None) -> int:
        """Return the longest sequence that tables of angles in the file allow."""
        tables = (input_of(node, _COSINES) for node in attentions)
        rows = [table.shape[0] for table in tables if table is not None and table.shape is not None]
        most = min([context, *(count for count in rows if isinstance(count, int))])
        if positions is not None and positions > most:
            want = f"1 to {most}, as the file has angles for"
            raise QuantValueError("positions", str(positions), want, "export the model for more")
        return most if positions is None else positions

    def _write_caches(self, tokens: Value, context: int, positions: int | None) -> None:
        """Write decomposed attention as GroupQueryAttention."""
        run_stages(self.model, _PLAIN)
        simplify_for_caches(self.model)
        self._widen_logits()
        patterns = [_pattern(self._names[kind]) for kind in ("keys", "values")]
        pasts = tuple(
            value for value in self._graph.inputs if any(p.fullmatch(value.name or "") for p in patterns)
        )
        inputs = {value.name: value for value in self._graph.inputs}
        mask, places = (inputs.get(self._names[kind]) for kind in ("mask", "positions"))
        ports = {tokens, mask, places, *pasts}
        unknown = [value.name for value in self._graph.inputs if value not in ports]
        if unknown:
            raise self._refuse(f"an input '{unknown[0]}'", "tokens, a mask, positions and caches")
        for node in self._graph:
            if node.op_type == "DynamicQuantizeLinear":
                got = f"node '{node.name}' ({node.op_type}), one range for all tokens of a call"
                raise UnsupportedError(
                    self._where, got, "codes that do not depend on how a prompt is cut",
                    "load the float file with weights='int8', or quantize it with MatMulNBits",
                )  # fmt: skip
        decoder = DecoderPorts(tokens, mask, places, pasts, self._logits(), self._sizes.heads)
        most = LONGEST if pasts else _LONGEST_MASK
        self.positions = min(context, most) if positions is None else positions
        write_caches(self.model, decoder, self.positions, self._where)

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

    def _widen_logits(self) -> None:
        """Let the logits of a float16 model be the floats that it computes."""
        logits = self._logits()
        node = logits.producer()
        floats = node.inputs[0] if node is not None and node.op_type == "Cast" else None
        if floats is not None and floats.dtype == DataType.FLOAT and not floats.is_graph_output():
            self._graph.outputs[self._graph.outputs.index(logits)] = floats
            logits.name, floats.name = f"{logits.name}.cast", logits.name

    def _logits(self) -> Value:
        """Return the output with the logits."""
        for value in self._graph.outputs:
            if value.name == self._names["logits"]:
                return value
        raise self._refuse(f"no '{self._names['logits']}'", "the outputs that its configuration names")

    def _find(self, name: str) -> Value:
        """Return the input of this name."""
        for value in self._graph.inputs:
            if value.name == name:
                return value
        raise self._refuse(f"no '{name}'", "the inputs that its configuration names")

    def _rename_caches(self, values: Any, kinds: tuple[str, str], prefix: str) -> None:
        for kind in kinds:
            pattern = _pattern(self._names[kind])
            for value in values:
                match = pattern.fullmatch(value.name or "")
                if match is None:
                    continue
                value.name = f"{kind}.{match[1]}"
                if value.shape is None or len(value.shape) != 4:
                    raise self._refuse(f"'{value.name}' without 4 axes", "[batch, heads, room, size]")
                _, heads, _, size = value.shape
                size = size if isinstance(size, int) else self._sizes.size  # the builder may leave it open
                if size < 1:
                    raise self._refuse(f"'{value.name}' of heads of an open size", "head_dim in config.json")
                set_shape(value, ["batch", heads if isinstance(heads, int) else None, "room", size])
        unknown = {value.name for value in values if not str(value.name).startswith((*kinds, "new_"))}
        own = {"last", "total", *(self._names[name] for name in ("tokens", "mask", "positions", "logits"))}
        if unknown - own:
            raise self._refuse(f"'{min(unknown - own)}'", "tokens, a mask and caches; logits and caches")

    def _gather_rows(self) -> None:
        """Gather the wanted rows in front of the head's product."""
        logits = self._logits()
        node, path = logits.producer(), [logits]
        while node is not None and node.op_type in _ROW_BY_ROW:
            path += [value for value in node.inputs[:2] if value is not None and value.const_value is None][
                :1
            ]
            node = path[-1].producer() if path[-1] not in node.outputs else None
        x = None if node is None or node.op_type not in _PRODUCTS else node.inputs[0]
        if node is None or x is None or logits.uses():
            raise self._refuse("logits of another kind", "those of a linear layer")
        insert = Inserter(self._graph, node, Namer(self._graph))
        flat = insert.node("Flatten", [x], "tokens.flat", dtype=x.dtype, shape=None, axis=2)
        gathered = []
        for name, size in (("rows", "wanted"), (STATE_ROWS, "states")):
            rows = Value(name=name)
            rows.dtype = DataType.INT64
            set_shape(rows, [size])
            self._graph.inputs.append(rows)
            gathered.append(
                insert.node("Gather", [flat, rows], f"{size}.rows", dtype=x.dtype, shape=None, axis=0)
            )
        node.replace_input_with(0, gathered[0])
        gathered[1].name = "states"
        set_shape(gathered[1], ["states", last_size(x)])
        self._graph.outputs.append(gathered[1])
        logits.name = "logits"
        for value in path:
            set_shape(value, ["wanted", last_size(value)])

    def _drop_inputs(self) -> None:
        for value in list(self._graph.inputs):
            if value.name not in (self._names["mask"], self._names["positions"]):
                continue
            for use in value.uses():
                raise self._refuse(f"node '{use.node.name}' that reads '{value.name}'", "lengths alone")
            self._graph.inputs.remove(value)

    def _refuse(self, got: str, want: str) -> UnsupportedError:
        return UnsupportedError(self._where, got, want, _FIX)


def _pattern(name: str) -> re.Pattern[str]:
    """Return what finds the names of all layers' caches."""
    return re.compile(re.escape(name).replace("%d", r"(\d{1,6})"))
