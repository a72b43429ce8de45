"""Mixtures of experts: a gated network for each token, from those that a router chose.

Source of the formula: TensorRT 11's header (IMoELayer). The gate of parameters limit, alpha and beta is that
of gpt-oss (OpenAI, 2025), from which TensorRT takes the names: ``g = min(gate, limit)``, ``u`` is up within
[-limit, limit], and a unit is ``g * sigmoid(alpha * g) * (u + beta)``.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from intact.graph import TypedComposer, codes_and_scales
from intact.trt.base.enums import DataType
from intact.trt.base.itensor import ITensor, Sizes, plain
from intact.trt.base.operation_enums import LayerType, MoEActType
from intact.trt.layers.base import ILayer, Nodes
from intact.trt.layers.dynamic_quantize import CODES, SCALES, blocks_that_fill

HIDDEN, CHOSEN, SCORES, GATE, UP, DOWN = range(6)
BIASES = 6
DOWN_SCALE = 9


class IMoELayer(ILayer):
    """Computes ``sum over k of score_k * down(up(x) * act(gate(x)))`` for each token, with k's weights.

    Inputs: hidden states [batch, tokens, hidden]; the chosen experts and their scores [batch, tokens, k].
    Weights of all experts are set by `set_gated_weights`: [experts, hidden, inner] for gate and up, [experts,
    inner, hidden] for down. Every expert is computed for every token, and the chosen ones are taken.

    Attributes:
        activation_type: SILU.
        quantization_to_type: What products in front of down are rounded to: FP8 or FP4; FLOAT: nothing.
        quantization_block_shape: Blocks of dynamic quantization: [1, 1, 1, n].
        dyn_q_output_scale_type: The type of its scales.
        swiglu_param_limit, swiglu_param_alpha, swiglu_param_beta: Of the gate.
    """

    TYPE = LayerType.MOE
    TITLE = "MoE"
    activation_type = MoEActType.NONE
    quantization_to_type = DataType.FLOAT
    quantization_block_shape: Sizes = ()
    dyn_q_output_scale_type = DataType.FLOAT
    swiglu_param_limit: float = inf
    swiglu_param_alpha: float = 1.0
    swiglu_param_beta: float = 0.0
    _dynamic: bool = False

    def set_gated_weights(
        self, fc_gate_weights: ITensor, fc_up_weights: ITensor, fc_down_weights: ITensor,
        activation_type: MoEActType,
    ) -> None:  # fmt: skip
        """Set the weights of gate, up and down of all experts, and what the gate's output goes through."""
        for index, tensor in enumerate((fc_gate_weights, fc_up_weights, fc_down_weights), GATE):
            self.set_input(index, tensor)
        self.activation_type = MoEActType(activation_type)

    def set_gated_biases(
        self, fc_gate_biases: ITensor, fc_up_biases: ITensor, fc_down_biases: ITensor
    ) -> None:
        """Set the biases of gate, up [experts, inner] and down [experts, hidden]."""
        for index, tensor in enumerate((fc_gate_biases, fc_up_biases, fc_down_biases), BIASES):
            self.set_input(index, tensor)

    def set_quantization_static(self, fc_down_activation_scale: ITensor, data_type: DataType) -> None:
        """Round the products in front of down to codes of `data_type` times a scale."""
        self.set_input(DOWN_SCALE, fc_down_activation_scale)
        self.quantization_to_type, self._dynamic = DataType(data_type), False

    def set_quantization_dynamic_dbl_q(
        self, fc_down_activation_dbl_q_scale: ITensor, data_type: DataType, block_shape: Any,
        dyn_q_output_scale_type: DataType,
    ) -> None:  # fmt: skip
        """Round them to codes times scales that a run finds, which are rounded with a scale of their own."""
        self.set_input(DOWN_SCALE, fc_down_activation_dbl_q_scale)
        self.quantization_to_type, self._dynamic = DataType(data_type), True
        self.quantization_block_shape = plain(tuple(block_shape))
        self.dyn_q_output_scale_type = DataType(dyn_q_output_scale_type)

    def set_swiglu_params(self, limit: float, alpha: float, beta: float) -> None:
        """Set the three parameters of the gate."""
        self.swiglu_param_limit, self.swiglu_param_alpha = float(limit), float(alpha)
        self.swiglu_param_beta = float(beta)

    def check(self) -> list[str]:
        """Check that weights are there and fit, and that the quantization is one of TensorRT's."""
        tensors = [self.get_input(i) for i in range(DOWN_SCALE + 1)]
        if None in tensors[GATE : DOWN + 1]:
            return ["MoE has no weights: call set_gated_weights"]
        if self.activation_type is not MoEActType.SILU:
            return [f"activation_type {self.activation_type}: MoE has SILU alone"]
        hidden, gate, up, down = (tensors[i].shape for i in (HIDDEN, GATE, UP, DOWN))  # type: ignore[union-attr]
        if any(len(tensors[i].shape) != 3 for i in range(BIASES)):  # type: ignore[union-attr]
            return ["hidden states, choices, scores and weights must have 3 dimensions"]
        if gate != up or down != (gate[0], gate[2], gate[1]) or hidden[2] != gate[1] or -1 in gate:
            return [f"weights of {gate}, {up} and {down} do not fit hidden states of {hidden}"]
        if len({tensor is None for tensor in tensors[BIASES:DOWN_SCALE]}) > 1:
            return ["set all biases of MoE, or none"]
        return self._quantization_errors(gate[2])

    def _quantization_errors(self, inner: int) -> list[str]:
        dtype = self.quantization_to_type
        if dtype is DataType.FLOAT:
            return []
        if dtype not in CODES:
            return [f"quantization_to_type {dtype}: MoE has FP8 and FP4"]
        scale = self.get_input(DOWN_SCALE)
        if scale is None or any(n != 1 for n in scale.shape):
            return ["quantization of MoE needs a scale of one number: call set_quantization_static"]
        if not self._dynamic:
            return []
        blocks = tuple(self.quantization_block_shape)
        if len(blocks) != 4 or blocks[:3] != (1, 1, 1) or (blocks[3] > 0 and inner % blocks[3]):
            return [f"quantization_block_shape {blocks}: MoE has [1, 1, 1, n], where n divides {inner}"]
        if self.dyn_q_output_scale_type not in SCALES:
            return [f"dyn_q_output_scale_type {self.dyn_q_output_scale_type}: FP8, E8M0 or FLOAT"]
        return []

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        n, x = Nodes(c, self.name), [*x, "", "", "", ""][: DOWN_SCALE + 1]
        down = self.get_input(DOWN)
        assert down is not None  # checked before
        _, inner, hidden = down.shape
        tokens = n("Reshape", x[HIDDEN], n.ints(1, -1, hidden))
        units = self._round(n, self._units(n, tokens, x), x[DOWN_SCALE], inner)
        outputs = self._linear(n, units, x, DOWN)
        chosen = n(
            "Reshape", n.cast(x[CHOSEN], "int64"), n("Concat", n.ints(-1), n.size(x[CHOSEN], 2), axis=0)
        )
        count = n.scalar(n.size(chosen, 0))
        rows = n("Range", n.ints(0, shape=()), count, n.ints(1, shape=()))
        rows = n("Expand", n("Unsqueeze", rows, n.ints(1)), n.sizes(chosen))
        places = n("Concat", n("Unsqueeze", chosen, n.ints(2)), n("Unsqueeze", rows, n.ints(2)), axis=2)
        scores = n("Unsqueeze", n("Reshape", x[SCORES], n.sizes(chosen)), n.ints(2))
        total = n("ReduceSum", n("Mul", n("GatherND", outputs, places), scores), n.ints(1), keepdims=0)
        n("Reshape", total, n.sizes(x[HIDDEN]), to=y[0])

    def _linear(self, n: Nodes, data: str, x: list[str], which: int) -> str:
        """Return the products of all experts with the weights `which`, and their biases."""
        products, bias = n("MatMul", data, x[which]), x[which - GATE + BIASES]
        return n("Add", products, n("Unsqueeze", bias, n.ints(1))) if bias else products

    def _units(self, n: Nodes, tokens: str, x: list[str]) -> str:
        """Return what goes into down: [experts, tokens, inner]."""
        gate, up = self._linear(n, tokens, x, GATE), self._linear(n, tokens, x, UP)
        if np.isfinite(self.swiglu_param_limit):
            limits = [n.array(np.float32(sign * self.swiglu_param_limit)) for sign in (-1, 1)]
            gate, up = n("Min", gate, limits[1]), n("Clip", up, *limits)
        inside = gate
        if self.swiglu_param_alpha != 1:
            inside = n("Mul", gate, n.array(np.float32(self.swiglu_param_alpha)))
        if self.swiglu_param_beta:
            up = n("Add", up, n.array(np.float32(self.swiglu_param_beta)))
        return n("Mul", n("Mul", gate, n("Sigmoid", inside)), up)

    def _round(self, n: Nodes, units: str, scale: str, inner: int) -> str:
        dtype = self.quantization_to_type
        if dtype is DataType.FLOAT:
            return units
        shape = (-1, inner)
        flat = n("Reshape", units, n.ints(*shape))
        block = int(self.quantization_block_shape[3]) if self._dynamic else inner
        scale_type = self.dyn_q_output_scale_type.numpy.name if self._dynamic else None
        blocks = blocks_that_fill(shape, (1, block))
        codes, _, total = codes_and_scales(
            n, flat, shape, blocks, (dtype.numpy.name, scale_type), n.scalar(scale)
        )
        return n("Reshape", n("Mul", codes, total), n.sizes(units))
