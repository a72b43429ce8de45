"""Read the pairs of a file that carry the names of their quantizers, as `emit_qdq` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from intact.graph.core.constants import Constants
from intact.graph.core.quantization_view import QuantizedValue, is_op, quantization_of
from intact.graph.qdq.emit_qdq import QUANTIZER_KEY
from intact.graph.qdq.softmax_guards import find_guarded_softmax


@dataclass(frozen=True)
class NamedPair:
    """One QuantizeLinear/DequantizeLinear pair, or stored codes behind a DequantizeLinear.

    Attributes:
        quantizer: Module path of the quantizer; where several share the pair, of the first.
        quantized: Grid, scale and zero point.
        stored: The codes of a constant, in the file's order of axes; None for any other tensor.
        readers: Names of the nodes that read its floats.
        guarded: What a Softmax makes, where the pair reads it behind a guard of its rows; else None.
        cast: Names of what Casts to floats read, behind which the pair stands: engines leave them out (N14).
    """

    quantizer: str
    quantized: QuantizedValue
    stored: NDArray[np.generic] | None
    readers: tuple[str, ...]
    guarded: ir.Value | None = None
    cast: tuple[str, ...] = ()

    @property
    def real(self) -> str:
        """The name of the floats behind the DequantizeLinear."""
        return self.quantized.value.name or ""

    @property
    def codes(self) -> str:
        """The name of the codes."""
        return self.quantized.codes.name or ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tensor's names in the file: before the pair, within it, and behind it.

        In front of a guard of its rows it has the same codes, since a quantizer makes 0 of a NaN there.
        """
        before = [value.name or "" for value in (self.quantized.source, self.guarded) if value is not None]
        return (*before, self.codes, self.real, *self.cast)


@dataclass(frozen=True)
class QuantizerCall:
    """One call of a quantizer, recorded while its module ran.

    Attributes:
        quantizer: Module path.
        pair: What the file has for it; None: nothing.
        x: What was quantized.
        y: The floats that came of it.
    """

    quantizer: str
    pair: NamedPair | None
    x: NDArray[np.float32]
    y: NDArray[np.float32]


def read_named_pairs(model: ir.Model) -> list[NamedPair]:
    """Read every pair of the main graph that names its quantizer, in the graph's order."""
    constants, pairs = Constants(model.graph), list[NamedPair]()
    for node in model.graph:
        if node.op_type != "DequantizeLinear" or QUANTIZER_KEY not in node.metadata_props:
            continue
        quantized = quantization_of(node.outputs[0], constants)
        if quantized is not None:
            stored = constants(quantized.codes) if quantized.constant else None
            readers = tuple(reader.name or "" for reader in node.outputs[0].consumers())
            maker = None if quantized.source is None else quantized.source.producer()
            guarded = None if maker is None else find_guarded_softmax(maker, constants)
            name = node.metadata_props[QUANTIZER_KEY]
            cast = tuple(_in_front_of_casts(maker))
            pairs.append(NamedPair(name, quantized, stored, readers, guarded, cast))
    return pairs


def _in_front_of_casts(node: ir.Node | None) -> Iterator[str]:
    """Yield the names of what `node` and the nodes in front of it read, while these are Casts."""
    while node is not None and is_op(node, "Cast") and (source := node.inputs[0]) is not None:
        yield source.name or ""
        node = source.producer()
