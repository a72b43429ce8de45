"""One node of each of ONNX Runtime's operators that the book knows, with inputs that it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from tests.onnx_models import onnx_graph, onnx_model

from intact.graph.ops import MICROSOFT

Arrays = dict[str, np.ndarray]
B, S, D, H = 2, 3, 32, 4
SCALE = np.array(0.02, np.float32)
_RNG = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape).astype(np.float32)


def codes(*shape: int) -> np.ndarray:
    return _RNG.integers(0, 255, shape).astype(np.uint8)


def int8_codes(*shape: int) -> np.ndarray:
    return _RNG.integers(-100, 100, shape).astype(np.int8)


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes:
        op_type: The operator.
        inputs: Arrays by name, in order; None: left out.
        constants: Names of those that are initializers.
        outputs: The outputs that are read.
        attributes: Of the node.
        domain: Of the operator.
    """

    op_type: str
    inputs: dict[str, np.ndarray | None]
    constants: str = ""
    outputs: tuple[int, ...] = (0,)
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = MICROSOFT

    @property
    def in_halves(self) -> Case:
        """The same in float16."""
        halves = {
            name: array.astype(np.float16) if array is not None and array.dtype == np.float32 else array
            for name, array in self.inputs.items()
        }
        return Case(self.op_type, halves, self.constants, self.outputs, self.attributes, self.domain)


def _grid(*names: str) -> dict[str, np.ndarray]:
    """Return a scale and a zero point for each name."""
    grids: dict[str, np.ndarray] = {}
    for name in names:
        grids |= {f"{name}_scale": np.array(0.02, np.float32), f"{name}_zero": np.array(128, np.uint8)}
    return grids


_CACHE = {"past_k": real(B, 3, 0, 32), "past_v": real(B, 3, 0, 32)}
_NONE = {"past_k": None, "past_v": None}
_ENDS = {"ends": np.full(B, 2, np.int32), "total": np.array([3], np.int32)}
_HEADS = {"num_heads": 3, "kv_num_heads": 3}
_QKV = {name: real(B, S, 96) for name in "qkv"}
_PACKED: dict[str, np.ndarray | None] = {"q": real(B, S, 288), "k": None, "v": None}
_SMALL = {name: real(B, S, D) for name in "qkv"}
_X = {"x": real(B, S, D)}
_PROJECTION = {"w": real(D, 3 * D), "b": real(3 * D)}
_CODES = {
    "x": codes(B, S, D), "w": int8_codes(D, 3 * D), "b": real(3 * D), "xs": np.array(0.02, np.float32),
    "ws": np.array(0.01, np.float32), "mask": None, "xz": np.array(128, np.uint8), "wz": np.array(0, np.int8),
}  # fmt: skip
_NORM = {"g": real(D), "beta": real(D), "bias": real(D)}
_WORDS = {
    "ids": _RNG.integers(0, 9, (B, S)).astype(np.int32), "segments": np.ones((B, S), np.int32),
    "words": real(10, D), "places": real(8, D), "kinds": real(2, D), "g": real(D), "beta": real(D),
    "mask": np.ones((B, S), np.int32),
}  # fmt: skip
_LSTM = {
    "x": real(S, B, 8), "w": int8_codes(1, 8, 16), "r": int8_codes(1, 4, 16), **dict.fromkeys("abcdf"),
    "ws": np.array([0.01], np.float32), "wz": np.zeros(1, np.int8), "rs": np.array([0.01], np.float32),
    "rz": np.zeros(1, np.int8),
}  # fmt: skip
_SUM = {"a": codes(B, S, D), **_grid("a"), "b": codes(B, S, D), **_grid("b", "y")}
_ONE = {"a": codes(B, S, D), **_grid("a", "y")}
_IMAGE = {"a": codes(1, 3, 4, 4), **_grid("a", "y")}
_GRIDS = "a_scale a_zero b_scale b_zero y_scale y_zero"

CASES = {
    "queries, keys and values": Case("GroupQueryAttention", _QKV | _CACHE | _ENDS, "", (0, 1, 2), _HEADS),
    "packed queries": Case("GroupQueryAttention", _PACKED | _CACHE | _ENDS, "", (0, 1, 2), _HEADS),
    "no past": Case("GroupQueryAttention", _QKV | _NONE | _ENDS, "", (0, 1, 2), _HEADS),
    "packed, no past": Case("GroupQueryAttention", _PACKED | _NONE | _ENDS, "", (0, 1, 2), _HEADS),
    "scores": Case(
        "GroupQueryAttention", _QKV | _CACHE | _ENDS, "", (0, 1, 2, 3), _HEADS | {"qk_output": 1}
    ),
    "heads": Case("MultiHeadAttention", _SMALL, "", (0, 1, 2), {"num_heads": H}),
    "heads with a past": Case(
        "MultiHeadAttention",
        _SMALL | dict.fromkeys("abc") | {"past_k": real(B, H, 5, 8), "past_v": real(B, H, 5, 8)},
        "", (0, 1, 2), {"num_heads": H},
    ),
    "self-attention": Case(
        "Attention", _X | _PROJECTION | {"mask": None, "past": real(2, B, H, 5, 8)}, "w b", (0, 1),
        {"num_heads": H, "unidirectional": 1},
    ),
    "self-attention of codes": Case(
        "QAttention", _CODES | {"past": real(2, B, H, 5, 8)}, "w b xs ws xz wz", (0, 1),
        {"num_heads": H, "unidirectional": 1},
    ),
    "norm of a sum": Case("SkipLayerNormalization", _X | {"s": real(B, S, D)} | _NORM, "g beta bias", (0, 3)),
    "root mean squares of a sum": Case(
        "SkipSimplifiedLayerNormalization", _X | {"s": real(B, S, D), "g": real(D)}, "g", (0, 3)
    ),
    "root mean squares": Case(
        "SimplifiedLayerNormalization", _X | {"g": real(D)}, "g", (0,), {"axis": -1}, domain=""
    ),
    "embeddings": Case("EmbedLayerNormalization", _WORDS, "words places kinds g beta", (0, 1, 2)),
    "BiasGelu": Case("BiasGelu", _X | {"b": real(D)}, "b"),
    "Gelu": Case("Gelu", _X),
    "FastGelu": Case("FastGelu", _X | {"b": real(D)}, "b"),
    "QuickGelu": Case("QuickGelu", _X),
    "convolution": Case(
        "FusedConv", {"x": real(1, 3, 6, 6), "w": real(4, 3, 3, 3)}, "w", (0,), {"activation": "Relu"}
    ),
    "Gemm": Case("FusedGemm", {"x": real(B, D), "w": real(D, 8)}, "w", (0,), {"activation": "Relu"}),
    "MatMul": Case("FusedMatMul", _X | {"w": real(8, D)}, "w", (0,), {"transB": 1, "alpha": 0.5}),
    "blocks of 4 bits": Case(
        "MatMulNBits", _X | {"w": codes(16, 1, 16), "s": np.abs(real(16))}, "w s", (0,),
        {"K": D, "N": 16, "bits": 4, "block_size": 32},
    ),
    "blocks with computed scales": Case(
        "MatMulNBits", _X | {"w": codes(16, 1, 16), "s": np.abs(real(16))}, "w", (0,),
        {"K": D, "N": 16, "bits": 4, "block_size": 32},
    ),
    "blocks of nf4": Case(
        "MatMulBnb4", _X | {"w": codes(D * 8), "s": np.abs(real(16))}, "w s", (0,),
        {"K": D, "N": 16, "block_size": 32, "quant_type": 1},
    ),
    "rows of blocks": Case(
        "GatherBlockQuantized",
        {"w": codes(16, 16), "ids": np.array([[1, 5]]), "s": np.abs(real(16, 2))}, "w s", (0,),
        {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4},
    ),
    "ranges of a run": Case(
        "DynamicQuantizeMatMul", _X | {"w": codes(D, 8), "s": np.array(0.02, np.float32)}, "w s"
    ),
    "integers to floats": Case(
        "MatMulIntegerToFloat",
        {"x": codes(B, S, D), "w": int8_codes(D, 8), "xs": SCALE, "ws": SCALE},
        "w ws",
    ),
    "LSTM": Case("DynamicQuantizeLSTM", _LSTM, "w r ws wz rs rz", (0, 1, 2), {"hidden_size": 4}),
    "rotation": Case(
        "RotaryEmbedding", _X | {"at": np.tile(np.arange(S), (B, 1)), "cos": real(16, 4), "sin": real(16, 4)},
        "cos sin", (0,), {"num_heads": H},
    ),
    "experts": Case(
        "MoE", {"x": real(4, 16), "p": real(4, 2), "w1": real(2, 24, 16), "b1": None, "w2": real(2, 16, 24)},
        "w1 w2", (0,), {"k": 1, "activation_type": "relu"},
    ),
    "sum of codes": Case("QLinearAdd", _SUM, _GRIDS),
    "sigmoid of codes": Case("QLinearSigmoid", _ONE, _GRIDS),
    "softmax of codes": Case("QLinearSoftmax", _ONE, _GRIDS, (0,), {"axis": -1, "opset": 13}),
    "joined codes": Case(
        "QLinearConcat", _grid("y") | {"a": codes(B, S, D), **_grid("a"), "b": codes(B, S, D), **_grid("b")},
        _GRIDS, (0,), {"axis": 1},
    ),
    "mean of codes": Case("QLinearGlobalAveragePool", _IMAGE, _GRIDS),
    "pool of codes": Case("QLinearAveragePool", _IMAGE, _GRIDS, (0,), {"kernel_shape": [2, 2]}),
    "leaky codes": Case("QLinearLeakyRelu", _ONE, _GRIDS, (0,), {"alpha": 0.1}),
    "pool with channels last": Case(
        "NhwcMaxPool", {"a": codes(1, 4, 4, 3)}, "", (0,), {"kernel_shape": [2, 2]}
    ),
    "codes": Case("QuantizeLinear", _X | _grid("y"), _GRIDS),
    "floats": Case("DequantizeLinear", {"a": codes(B, S, D), **_grid("a")}, _GRIDS),
    "floats of 16 bits": Case(
        "DequantizeLinear",
        {"a": codes(B, S, D).astype(np.uint16), "s": SCALE, "z": np.array(9, np.uint16)}, "s z",
    ),
}  # fmt: skip

STEPS = {"If": np.array(True), "Loop": np.array(2), "Scan": np.zeros(2, np.float32)}
"""Inputs that decide how often a branch or a body runs."""


def model_of(case: Case, place: str) -> tuple[onnx.ModelProto, Arrays]:
    """Build a model with one node whose inputs and outputs no value_info declares.

    Args:
        case: The node. Its float inputs are computed, and another node reads each of its outputs.
        place: "main", "If", "Loop" or "Scan": where it stands.
    Returns:
        The model, with outputs of unknown shape, and its inputs.
    """
    constant_names = case.constants.split()
    feeds = {n: a for n, a in case.inputs.items() if a is not None and n not in constant_names}
    constants = {n: a for n, a in case.inputs.items() if a is not None and n in constant_names}
    nodes, read = [], []
    for name, array in case.inputs.items():
        is_computed = name in feeds and array is not None and array.dtype.kind == "f"
        if is_computed:
            nodes.append(helper.make_node("Neg", [name], [f"{name}.n"]))
        read.append("" if array is None else f"{name}.n" if is_computed else name)
    output_names = [f"o{at}" if at in case.outputs else "" for at in range(max(case.outputs) + 1)]
    nodes.append(
        helper.make_node(case.op_type, read, output_names, "node", domain=case.domain, **case.attributes)
    )
    ends = [f"r{at}" for at in case.outputs]
    nodes += [helper.make_node("Concat", [f"o{at}"] * 2, [f"r{at}"], axis=0) for at in case.outputs]
    inputs = {n: (helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)) for n, a in feeds.items()}
    empty = [helper.make_empty_tensor_value_info(end) for end in ends]
    if place != "main":
        nodes, ends = _inside(place, nodes, empty)
        more: dict[str, np.ndarray] = {
            "If": np.array(True),
            "Loop": np.array(2),
            "Scan": np.zeros(2, np.float32),
        }
        feeds["steps"] = more[place]
        inputs["steps"] = helper.np_dtype_to_tensor_dtype(more[place].dtype), list(more[place].shape)
    outputs = [helper.make_empty_tensor_value_info(end) for end in ends]
    return onnx_model(nodes, inputs, outputs, constants, opset=21, domains={MICROSOFT: 1}), feeds


def _inside(
    place: str, nodes: list[onnx.NodeProto], ends: list[onnx.ValueInfoProto]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """Put nodes into a branch or a body."""
    outer = [f"z{at}" for at in range(len(ends))]
    if place == "If":
        other = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        inner = {name for node in nodes for name in node.output if name}
        for node in other:
            node.input[:] = [f"{name}.else" if name in inner else name for name in node.input]
            node.output[:] = [f"{name}.else" if name else "" for name in node.output]
        other_ends = [helper.make_empty_tensor_value_info(f"{end.name}.else") for end in ends]
        branches = {
            "then_branch": onnx_graph(nodes, [], ends),
            "else_branch": onnx_graph(other, [], other_ends),
        }
        return [helper.make_node("If", ["steps"], outer, **branches)], outer
    if place == "Scan":
        body = onnx_graph(nodes, {"step": (TensorProto.FLOAT, [])}, ends)
        return [helper.make_node("Scan", ["steps"], outer, body=body, num_scan_inputs=1)], outer
    go_on = helper.make_node("Identity", ["go.on"], ["goes.on"])
    ports = {"step": (TensorProto.INT64, []), "go.on": (TensorProto.BOOL, [])}
    condition = helper.make_tensor_value_info("goes.on", TensorProto.BOOL, [])
    body = onnx_graph([*nodes, go_on], ports, [condition, *ends])
    return [helper.make_node("Loop", ["steps", ""], outer, body=body)], outer
