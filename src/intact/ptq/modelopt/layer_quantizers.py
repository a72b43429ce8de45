"""Writes the quantizers of linear layers: codes of weights, and inputs on their grids."""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.graph import DataType, Namer, QuantizerWriter, Value, insert_behind
from intact.ptq.blocks import LayerGroup, LinearLayer, insert_channel_scales
from intact.ptq.modelopt.attention_products import module_paths
from intact.ptq.modelopt.configurations import Algorithm, QuantizerRules
from intact.ptq.modelopt.layer_search import (
    InputStatistics,
    hadamard,
    low_rank,
    search_clip,
    search_scales,
    stack,
    weight_codes,
)
from intact.ptq.modelopt.quantizers import (
    OFF,
    MatrixCodes,
    Quantizer,
    QuantizerChain,
    Reals,
    refuse,
)

_WITHIN = "it is inside a branch or a loop"
_LEFT = "the configuration leaves it in float"
Chains = tuple[QuantizerChain, QuantizerChain]
"""Of the weight and of the input of a layer."""


@dataclass(frozen=True)
class GroupPlan:
    """Describes layers that read one tensor and get the same quantizers.

    Attributes:
        layers: In the order of the graph.
        chains: Of their weights and of their input.
    """

    layers: tuple[LinearLayer, ...]
    chains: Chains

    @property
    def source(self) -> str:
        """The name of the tensor that they read."""
        return self.layers[0].source.name or ""

    @property
    def needs_data(self) -> bool:
        """True where a range of the input is stored."""
        return any(quantizer.needs_range for quantizer in self.chains[1].quantizers)


@dataclass
class WrittenGroup:
    """Holds what was written: of each layer in words, its weight's error, and Muls of channels."""

    layers: dict[str, str] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    muls: list[str] = field(default_factory=list)


def plan_group(group: LayerGroup, rules: QuantizerRules) -> tuple[GroupPlan | None, dict[str, str]]:
    """Return the layers of a group that get quantizers, and why the others get none, by name.

    Layers of a group whose quantizers differ from the first one's are refused by name.

    Raises:
        UnsupportedError: The quantizers are none that INTact writes.
    """
    layers, reasons = dict[str, tuple[LinearLayer, Chains]](), dict[str, str]()
    for layer in group.layers:
        paths = module_paths(layer.node, [layer.weight.name or ""])
        chains = rules.of(paths, "weight_quantizer"), rules.of(paths, "input_quantizer")
        if rules.of(paths, "output_quantizer"):
            raise refuse("output_quantizer", "quantizers of a layer's output")
        if not any(chains):
            reasons[layer.name] = _LEFT
        elif layer.path or layer.twins:
            reasons[layer.name] = _WITHIN
        elif reason := _misfit(layer, chains):
            reasons[layer.name] = reason
        else:
            layers[layer.name] = layer, chains
    if not layers:
        return None, reasons
    chosen = next(iter(layers.values()))[1]
    for name, (_, chains) in layers.items():
        if chains != chosen:
            raise refuse(f"'{name}'", "other quantizers than a layer that reads the same tensor")
    return GroupPlan(tuple(layer for layer, _ in layers.values()), chosen), reasons


def _misfit(layer: LinearLayer, chains: Chains) -> str:
    """Return why blocks do not fit a layer; "" where they do."""
    weights, inputs = chains
    size = layer.shape[1]
    if weights.rotates or (inputs.rotates and hadamard(size) is None):
        raise refuse("rotate", f"rotation of {'weights' if weights.rotates else f'{size} channels'}")
    for quantizer in weights.quantizers[1:]:
        if quantizer.blocks or quantizer.axis is not None:
            raise refuse("weight_quantizer", "a second quantizer with more than one scale")
    for quantizer in inputs.quantizers:
        require_input_grid("input_quantizer", quantizer)
        width = quantizer.blocks.get(-1) if quantizer.blocks else None
        if width is not None and size % width:
            return f"blocks of {width} do not fill its {size} inputs"
    if any(quantizer.bias_axes for chain in chains for quantizer in chain.quantizers):
        raise refuse("bias", "means that are subtracted from inputs of layers")
    return ""


def require_input_grid(where: str, quantizer: Quantizer) -> None:
    """Refuse grids that no operator gives activations.

    Raises:
        UnsupportedError: Names the field.
    """
    if quantizer.axis is not None:
        raise refuse(f"{where}: axis", "a scale for each channel of an activation")
    if set(quantizer.blocks) - {-1}:
        raise refuse(f"{where}: block_sizes", "activations in blocks along two axes")
    if quantizer.blocks and not quantizer.is_dynamic:
        raise refuse(f"{where}: block_sizes", "activations in blocks with stored scales")


def write_group(
    names: Namer, plan: GroupPlan, inputs: InputStatistics | None, algorithm: Algorithm
) -> WrittenGroup:
    """Write the quantizers of a group of layers, in place.

    Args:
        names: Of the model.
        plan: Of layers of the main graph.
        inputs: What data say of the tensor that they read; None: there are no data, or none reach it.
        algorithm: How scales of channels and ranges are found.
    """
    result = WrittenGroup()
    matrices = [layer.rows() for layer in plan.layers]
    weights, chain = plan.chains
    scales = None
    if inputs is not None:
        scales = search_scales(stack(matrices), inputs, plan.chains, algorithm)
    if scales is not None and inputs is not None:
        result.muls.append(insert_channel_scales(names, plan.layers, scales))
        matrices = [matrix * scales for matrix in matrices]
        inputs = InputStatistics(inputs.peaks / scales, inputs.means / scales, inputs.rows / scales)
    write = QuantizerWriter(plan.layers[0].node, names)
    plain = plan.layers[0].source
    most = None if inputs is None else float(inputs.peaks.max(initial=0))
    source = write_input(write, plain, chain, plan.layers[0].shape[1], most)
    for layer, matrix in zip(plan.layers, matrices, strict=True):
        layer.node.replace_input_with(0, source)
        factors = low_rank(matrix, algorithm.lowrank) if algorithm.method == "svdquant" else None
        if factors is not None:
            matrix = matrix - factors[0] @ factors[1]
            _write_low_rank(names, layer, plain, factors)
        rows = None if inputs is None else inputs.rows
        clip = 1.0 if rows is None or not len(rows) else search_clip(matrix, rows, weights, algorithm)
        codes = weight_codes(matrix, weights, clip)
        if codes:
            layer.node.replace_input_with(
                1, _write_weight(QuantizerWriter(layer.node, names), layer, codes, weights)
            )
            errors = codes[-1].floats() - matrix
            square = max(float(np.vdot(matrix, matrix)), 1e-300)
            result.errors[layer.name] = float(np.vdot(errors, errors)) / square
        result.layers[layer.name] = describe(weights, chain)
    return result


def _write_low_rank(names: Namer, layer: LinearLayer, x: Value, factors: tuple[Reals, Reals]) -> None:
    """Add the product of a layer's input with two narrow matrices to its output."""
    write = QuantizerWriter(layer.node, names)
    outer, inner = factors
    narrow = write.multiply(x, np.ascontiguousarray(inner.T))
    insert_behind(layer.node, names, "Add", write.multiply(narrow, np.ascontiguousarray(outer.T)))


def write_input(
    write: QuantizerWriter, x: Value, chain: QuantizerChain, size: int, most: float | None,
    mean: Reals | None = None,
) -> Value:  # fmt: skip
    """Write the quantizers of an activation [..., size]; return what its readers get.

    Args:
        write: In front of the first reader.
        x: The activation.
        chain: Its quantizers.
        size: Of the last axis.
        most: The largest magnitude that data have there; None: there are no data.
        mean: What is subtracted before codes are chosen, and added behind; None: nothing is.
    """
    if chain.rotates:
        matrix = hadamard(size)
        assert matrix is not None
        x = write.multiply(x, matrix)
    x = x if mean is None else write.add_constant(x, -mean)
    for quantizer in chain.quantizers:
        if quantizer.blocks or quantizer.is_dynamic or most is None:
            x = write.dynamic(x, quantizer.run_scales(most), size)
        else:
            x = write.static_pair(x, most / quantizer.largest if most > 0 else 1.0, quantizer.dtype)
    return x if mean is None else write.add_constant(x, mean)


def _write_weight(
    write: QuantizerWriter, layer: LinearLayer, codes: list[MatrixCodes], chain: QuantizerChain
) -> Value:
    """Write stored codes and what stands behind them; return the floats, in the place of the matrix."""
    first, quantizer = codes[0], chain.quantizers[0]
    outputs_first = layer.transposes
    axis = 1 if outputs_first else 0
    stored = _code_array(first.codes, quantizer.dtype)
    scales: NDArray = first.scales
    if scales.ndim == 2 and not outputs_first:
        scales = np.ascontiguousarray(scales.T)
    if not outputs_first:
        stored = np.ascontiguousarray(stored.T)
    if (quantizer.dtype, quantizer.scale_type, first.block) == ("float8_e4m3fn", "float8_e8m0fnu", 32):
        floats = write.mxfp8_weight(stored, scales.astype(ml_dtypes.float8_e8m0fnu), axis)
    else:
        if first.factor is not None:
            scales = scales.astype(ml_dtypes.float8_e4m3fn)
        of_scales = axis if first.block is not None else 1 - axis
        floats = write.weight(stored, scales, of_scales, first.block, first.factor)
    for further, grid in zip(codes[1:], chain.quantizers[1:], strict=True):
        floats = write.static_pair(floats, float(further.scales), grid.dtype)
    old = layer.node.inputs[1]
    assert old is not None
    floats.shape = old.shape
    return write.cast(floats, DataType.from_numpy(layer.dtype))


def _code_array(codes: Reals, dtype: str) -> NDArray:
    """Return codes in the type that a file holds: numbers of six bits are numbers of eight, too."""
    if dtype == "int8":
        return codes.astype(np.int8)
    name = "float8_e4m3fn" if dtype.startswith("float6") else dtype
    return codes.astype(np.dtype(getattr(ml_dtypes, name)))


_WORDS = {
    "float8_e4m3fn": "fp8", "float4_e2m1fn": "fp4", "float6_e3m2fn": "fp6 e3m2", "float6_e2m3fn": "fp6 e2m3",
}  # fmt: skip


def describe(weights: QuantizerChain, inputs: QuantizerChain) -> str:
    """Return what a layer got, in words."""
    return f"weights {words_of(weights)}, inputs {words_of(inputs)}"


def words_of(chain: QuantizerChain) -> str:
    """Return the quantizers of a tensor in words."""
    if chain is OFF or not chain:
        return "float"
    parts = ["rotated"] if chain.rotates else []
    for quantizer in chain.quantizers:
        word = _WORDS.get(quantizer.dtype, quantizer.dtype)
        sizes = [str(size or "all") for _, size in sorted(quantizer.blocks.items())]
        parts.append(f"{word} in blocks of {' x '.join(sizes)}" if sizes else word)
    return ", then ".join(parts)
