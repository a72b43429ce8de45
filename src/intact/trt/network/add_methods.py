"""The ``add_*`` calls of a network that make one layer each: one row for each call.

A row names the arguments in TensorRT's order: ``input!`` is a tensor, ``inputs*!`` a sequence of them,
``axesMask>axes`` an argument that the layer calls otherwise, ``axis=0`` one with a default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature, cleandoc
from typing import Any

from intact.trt import layers as kinds
from intact.trt.base.enums import DataType
from intact.trt.base.operation_enums import BoundingBoxFormat, CumulativeOperation, GatherMode, ScatterMode
from intact.trt.layers import ILayer

_WINDOW = "input! num_output_maps kernel_shape>kernel_size_nd kernel=None bias=None"
_POOL = "input! type window_size>window_size_nd"
_SCALE = "input! mode shift=None scale=None power=None"

ROWS: dict[str, tuple[type[ILayer], str]] = {
    "add_constant": (kinds.IConstantLayer, "shape weights"),
    "add_quantize": (kinds.IQuantizeLayer, "input! scale! output_type>to_type=INT8"),
    "add_dequantize": (kinds.IDequantizeLayer, "input! scale! output_type>to_type=FLOAT"),
    "add_dynamic_quantize": (
        kinds.IDynamicQuantizeLayer, "input! axis block_size output_type>to_type scale_type",
    ),
    "add_dynamic_quantize_v2": (
        kinds.IDynamicQuantizeLayer, "input! block_shape output_type>to_type scale_type",
    ),
    "add_rotary_embedding": (
        kinds.IRotaryEmbeddingLayer, "input! cos_cache! sin_cache! interleaved rotary_embedding_dim",
    ),
    "add_kv_cache_update": (kinds.IKVCacheUpdateLayer, "cache! update! write_indices! cache_mode"),
    "add_identity": (kinds.IIdentityLayer, "input!"),
    "add_cast": (kinds.ICastLayer, "input! to_type"),
    "add_convolution": (kinds.IConvolutionLayer, _WINDOW),
    "add_convolution_nd": (kinds.IConvolutionLayer, _WINDOW),
    "add_deconvolution": (kinds.IDeconvolutionLayer, _WINDOW),
    "add_deconvolution_nd": (kinds.IDeconvolutionLayer, _WINDOW),
    "add_fully_connected": (
        kinds.IFullyConnectedLayer, "input! num_outputs>num_output_channels kernel=None bias=None",
    ),
    "add_matrix_multiply": (kinds.IMatrixMultiplyLayer, "input0! op0 input1! op1"),
    "add_einsum": (kinds.IEinsumLayer, "inputs*! equation"),
    "add_activation": (kinds.IActivationLayer, "input! type"),
    "add_parametric_relu": (kinds.IParametricReLULayer, "input! slopes!"),
    "add_pooling": (kinds.IPoolingLayer, _POOL),
    "add_pooling_nd": (kinds.IPoolingLayer, _POOL),
    "add_lrn": (kinds.ILRNLayer, "input! window>window_size alpha beta k"),
    "add_grid_sample": (kinds.IGridSampleLayer, "input! grid!"),
    "add_elementwise": (kinds.IElementWiseLayer, "input1! input2! op"),
    "add_unary": (kinds.IUnaryLayer, "input! op"),
    "add_scale": (kinds.IScaleLayer, _SCALE),
    "add_scale_nd": (kinds.IScaleLayer, f"{_SCALE} channel_axis=1"),
    "add_rnn_v2": (
        kinds.IRNNv2Layer,
        "input! layer_count>_layers hidden_size>_hidden max_seq_length>_length op",
    ),
    "add_softmax": (kinds.ISoftMaxLayer, "input!"),
    "add_ragged_softmax": (kinds.IRaggedSoftMaxLayer, "input! bounds!"),
    "add_normalization": (kinds.INormalizationLayer, "input! scale! bias! axesMask>axes"),
    "add_normalization_v2": (
        kinds.INormalizationLayer, "input! scale! bias! axesMask>axes _per_channel=True",
    ),
    "add_reduce": (kinds.IReduceLayer, "input! op axes keep_dims"),
    "add_topk": (kinds.ITopKLayer, "input! op k axes indices_type=INT32"),
    "add_cumulative": (kinds.ICumulativeLayer, "input! axis! op=CUMULATIVE exclusive=False reverse=False"),
    "add_concatenation": (kinds.IConcatenationLayer, "inputs*!"),
    "add_shuffle": (kinds.IShuffleLayer, "input!"),
    "add_squeeze": (kinds.ISqueezeLayer, "input! axes!"),
    "add_unsqueeze": (kinds.IUnsqueezeLayer, "input! axes!"),
    "add_reverse_sequence": (kinds.IReverseSequenceLayer, "input! sequence_lens!"),
    "add_shape": (kinds.IShapeLayer, "input!"),
    "add_slice": (kinds.ISliceLayer, "input! start shape stride"),
    "add_select": (kinds.ISelectLayer, "condition! then_input! else_input!"),
    "add_gather": (kinds.IGatherLayer, "input! indices! axis=0"),
    "add_gather_v2": (kinds.IGatherLayer, "input! indices! mode=GATHER"),
    "add_scatter": (kinds.IScatterLayer, "data! indices! updates! mode=SCATTER"),
    "add_non_zero": (kinds.INonZeroLayer, "input! indices_type=INT32"),
    "add_one_hot": (kinds.IOneHotLayer, "indices! values! depth! axis=-1"),
    "add_nms": (
        kinds.INMSLayer, "boxes! scores! max_output_boxes_per_class! indices_type=INT32",
    ),
    "add_resize": (kinds.IResizeLayer, "input!"),
    "add_padding": (kinds.IPaddingLayer, "input! pre_padding>pre_padding_nd post_padding>post_padding_nd"),
    "add_padding_nd": (kinds.IPaddingLayer, "input! pre_padding>pre_padding_nd post_padding>post_padding_nd"),
    "add_fill": (kinds.IFillLayer, "shape op>operation output_type>to_type=FLOAT"),
    "add_assertion": (kinds.IAssertionLayer, "condition! message"),
}  # fmt: skip

_DEFAULTS: dict[str, Any] = {
    "None": None, "False": False, "True": True, "0": 0, "1": 1, "-1": -1, "INT8": DataType.INT8,
    "INT32": DataType.INT32, "FLOAT": DataType.FLOAT, "GATHER": GatherMode.DEFAULT,
    "SCATTER": ScatterMode.ELEMENT, "CUMULATIVE": CumulativeOperation.SUM,
    "CORNERS": BoundingBoxFormat.CORNER_PAIRS,
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """Describes one argument of a call.

    Attributes:
        name: TensorRT's.
        attribute: What the layer calls it.
        tensor, many: Whether it is a tensor, or a sequence of them.
        default: Its default; `Parameter.empty` where it has none.
    """

    name: str
    attribute: str
    tensor: bool
    many: bool
    default: Any

    @classmethod
    def of(cls, text: str) -> Argument:
        """Parse a word of a row."""
        text, _, default = text.partition("=")
        text, _, attribute = text.partition(">")
        name = text.rstrip("*!")
        return cls(
            name, attribute or name, text.endswith("!"), "*" in text,
            _DEFAULTS[default] if default else Parameter.empty,
        )  # fmt: skip


def install(network: type) -> None:
    """Add the calls of `ROWS` to the class `network`."""
    for name, (kind, words) in ROWS.items():
        setattr(network, name, _call(network, name, kind, [Argument.of(word) for word in words.split()]))


def _call(network: type, name: str, kind: type[ILayer], arguments: list[Argument]) -> Callable[..., ILayer]:
    shown = [a for a in arguments if not a.name.startswith("_")]
    fixed = {a.attribute: a.default for a in arguments if a.name.startswith("_")}
    signature = Signature(
        [Parameter("self", Parameter.POSITIONAL_ONLY)]
        + [Parameter(a.name, Parameter.POSITIONAL_OR_KEYWORD, default=a.default) for a in shown]
    )

    def add(self: Any, *positional: Any, **named: Any) -> ILayer:
        bound = signature.bind(self, *positional, **named)
        bound.apply_defaults()
        tensors: list[Any] = []
        parameters: dict[str, Any] = dict(fixed)
        for argument in shown:
            value = bound.arguments[argument.name]
            if argument.many:
                tensors.extend(value)
            elif argument.tensor:
                tensors.append(value)
            else:
                parameters[argument.attribute] = tuple(value) if isinstance(value, (list, tuple)) else value
        layer: ILayer = self.add_layer(kind, tuple(tensors), **parameters)
        return layer

    add.__name__, add.__qualname__ = name, f"{network.__name__}.{name}"
    add.__doc__ = f"{kind.__name__}: {cleandoc(kind.__doc__ or '')}"
    add.__signature__ = signature  # type: ignore[attr-defined]
    return add
