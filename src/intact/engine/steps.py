"""The lowered steps: what an integer model does, one record for each kernel call, with no shape fixed.

A record names its tensors and constants; the numbers behind the names stand in the `Plan`. Three things
read it: the integer reference (`engine.reference`, the meaning), the binder (native calls for one set of
input shapes) and plan files. All axes, pads and shapes are in ONNX's order (N, C, H, W); where bytes lie is
the binder's business.

Codes are read and written as `Codes` says. A step that computes in floats takes codes or float32 on every
input and makes either: codes in are dequantized (N12), codes out quantized (N11).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

Dim = int | str
"""A size; or the name of one that the first run with it fixes, such as "batch"."""


@dataclass(frozen=True)
class Codes:
    """The grid of a tensor of codes, and which codes can occur.

    Attributes:
        scale: Real size of one step, a float32 number.
        zero_point: The code that means 0.0.
        signed: int8 codes; False: uint8.
        low, high: Ends of what its producer can write, in codes of that format. The zero point may lie
            outside of them.
    """

    scale: float
    zero_point: int
    signed: bool
    low: int
    high: int

    @property
    def held(self) -> tuple[int, int]:
        """Ends of the codes in its memory: what its producer can write, and the zero point, for padding."""
        return min(self.low, self.zero_point), max(self.high, self.zero_point)

    @property
    def offset(self) -> int:
        """Kernels read bytes: byte = code + offset. Codes that are never negative are bytes already."""
        return 128 if self.held[0] < 0 else 0

    @property
    def byte_range(self) -> tuple[int, int]:
        """Ends of what its producer can write, as bytes."""
        return self.low + self.offset, self.high + self.offset


@dataclass(frozen=True)
class Tensor:
    """A value between steps.

    Attributes:
        name: Unique in the plan: the graph's name for the real tensor where there is one.
        dtype: "codes", or a NumPy dtype's name ("float32", "int64", "bool", ...).
        shape: ONNX's order.
        codes: Its grid, where dtype is "codes".
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    codes: Codes | None = None


@dataclass(frozen=True)
class Epilogue:
    """How a sum becomes an output: N22 to N25.

    Attributes:
        multiplier: Constant, float32 [channels] (or [1]): M.
        bias: Constant, float32 [channels] (or [1]): B; "" for none.
        integer_bias: Constant, int32 [channels], added to the sum: N30; "" for none.
        residual: Tensor of codes that is added after B; "" for none.
        residual_multiplier: R: float32; s_r / s_y, or s_r where the output is real.
        activation: A function of `numerics` evaluated on the real sum before it is quantized ("gelu", ...);
            then M and B are those of a real output. "" for none: Relu and Clip are `low` and `high`.
        low, high: Bounds in codes of the output, or in floats where the output is real (None: unbounded).
        factors: Constant, float32 [channels] (or [1]), by which what `activation` gives is multiplied; "" for
            none.
        slope: Constant, float32 [channels] (or [1]), by which what is below 0 behind the residual is
            multiplied (N48): LeakyRelu and PRelu, in place of an activation; "" for none.
    """

    multiplier: str
    bias: str = ""
    integer_bias: str = ""
    residual: str = ""
    residual_multiplier: float = 0.0
    activation: str = ""
    low: float | None = None
    high: float | None = None
    factors: str = ""
    slope: str = ""


_FILED_AS_ENDING = {"key": "ending"}
"""What plan files call an epilogue."""


@dataclass(frozen=True)
class Step:
    """What every step has.

    Attributes:
        name: The layer's name: its first node.
        nodes: Names of all nodes of the graph that it does.
    """

    kind: ClassVar[str]
    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Quantize(Step):
    """float32 -> codes (N11)."""

    kind = "quantize"
    x: str
    y: str


@dataclass(frozen=True)
class Dequantize(Step):
    """codes -> float32 (N12)."""

    kind = "dequantize"
    x: str
    y: str


@dataclass(frozen=True)
class Conv(Step):
    """Convolution of codes with constant int8 weights (N19 to N25).

    Attributes:
        weight: Constant, int8 [out, kernel_h, kernel_w, in / groups], zero points subtracted already.
        pads: (top, left, bottom, right). Padding reads the zero point.
    """

    kind = "conv"
    x: str
    y: str
    weight: str
    epilogue: Epilogue = field(metadata=_FILED_AS_ENDING)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1


@dataclass(frozen=True)
class ConvTranspose(Step):
    """Transposed convolution. `weight` is int8 [out, kernel_h, kernel_w, in / groups], not flipped."""

    kind = "conv_transpose"
    x: str
    y: str
    weight: str
    epilogue: Epilogue = field(metadata=_FILED_AS_ENDING)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    output_padding: tuple[int, int] = (0, 0)
    groups: int = 1


@dataclass(frozen=True)
class Linear(Step):
    """x [..., in] times constant weights int8 [out, in], transposed (Gemm, MatMul)."""

    kind = "linear"
    x: str
    y: str
    weight: str
    epilogue: Epilogue = field(metadata=_FILED_AS_ENDING)


@dataclass(frozen=True)
class MatMul(Step):
    """Product of two activations of codes, [..., i, k] by [..., k, j], leading axes broadcast.

    `epilogue` has one multiplier; a factor that follows (1 / sqrt(d)) is part of it. No bias, no residual.
    """

    kind = "matmul"
    a: str
    b: str
    y: str
    epilogue: Epilogue = field(metadata=_FILED_AS_ENDING)


@dataclass(frozen=True)
class Pool(Step):
    """AveragePool or MaxPool of codes (N27). `kernel` None: the whole plane (global)."""

    kind = "pool"
    x: str
    y: str
    mode: Literal["average", "max"]
    kernel: tuple[int, int] | None = None
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    ceil_mode: bool = False
    count_include_pad: bool = False


@dataclass(frozen=True)
class Add(Step):
    """Sum of two tensors of codes (N26), with broadcasting; bounds are codes of the output."""

    kind = "add"
    a: str
    b: str
    y: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Table(Step):
    """A function of one code: 256 entries, formed in float64 by the builder; entry i is for byte i of x.

    Attributes:
        table: Constant, uint8 [256]: bytes of y.
    """

    kind = "table"
    x: str
    y: str
    table: str


@dataclass(frozen=True)
class Concat(Step):
    """Concatenation. Inputs on another grid than y are rescaled (N28)."""

    kind = "concat"
    xs: tuple[str, ...]
    y: str
    axis: int


@dataclass(frozen=True)
class Rescale(Step):
    """Codes of one grid to codes of another (N28)."""

    kind = "rescale"
    x: str
    y: str


@dataclass(frozen=True)
class Reinterpret(Step):
    """The same codes under another grid: a DequantizeLinear has other parameters than its QuantizeLinear."""

    kind = "reinterpret"
    x: str
    y: str


@dataclass(frozen=True)
class Reshape(Step):
    """The same elements in ONNX's order under y's shape (Flatten, Squeeze, ... too)."""

    kind = "reshape"
    x: str
    y: str


@dataclass(frozen=True)
class Transpose(Step):
    kind = "transpose"
    x: str
    y: str
    perm: tuple[int, ...]


@dataclass(frozen=True)
class Slice(Step):
    """One (start, step) for each axis; y's shape says how many: to the end, where that size is new.

    Split is several of these.
    """

    kind = "slice"
    x: str
    y: str
    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Pad(Step):
    """Constant padding with real 0 (codes: the zero point). (before, after) for each axis."""

    kind = "pad"
    x: str
    y: str
    pads: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Resize(Step):
    """Nearest neighbour. `indices` name one constant int64 array for each axis that changes: what y reads."""

    kind = "resize"
    x: str
    y: str
    axes: tuple[int, ...]
    indices: tuple[str, ...]


@dataclass(frozen=True)
class Gather(Step):
    """Rows of x, a tensor or a constant of float32: ``y[i, ...] = x[index[i], ...]``.

    Attributes:
        index: int32 or int64, an input of the plan or a constant. Negative ones count from the end; what is
            out of range is an error.
    """

    kind = "gather"
    x: str
    index: str
    y: str


@dataclass(frozen=True)
class Softmax(Step):
    """Over one axis, of ``x * gain`` (+ `mask`, a float tensor or constant that broadcasts)."""

    kind = "softmax"
    x: str
    y: str
    axis: int
    gain: float = 1.0
    mask: str = ""


@dataclass(frozen=True)
class LayerNorm(Step):
    """Over the last axis, of x (+ `residual`). weight and bias: constants float32, "" for none."""

    kind = "layer_norm"
    x: str
    y: str
    weight: str
    bias: str
    epsilon: float
    residual: str = ""


@dataclass(frozen=True)
class Reduce(Step):
    """Sum or mean of floats along axes (N50), which stay with size 1 where `keepdims` says so."""

    kind = "reduce"
    x: str
    y: str
    function: Literal["mean", "sum"]
    axes: tuple[int, ...]
    keepdims: bool = False


@dataclass(frozen=True)
class Function(Step):
    """An element-wise function of `numerics` in floats: "gelu", "sigmoid", "tanh", "silu", "relu", ..."""

    kind = "function"
    x: str
    y: str
    function: str


@dataclass(frozen=True)
class Clip(Step):
    """Bounds of floats (N49). None: unbounded."""

    kind = "clip"
    x: str
    y: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Binary(Step):
    """Element-wise in floats with broadcasting: "add", "sub", "mul", "div", "max", "min", "slope".

    a or b may name a constant. The slope of a is b (N48).
    """

    kind = "binary"
    function: str
    a: str
    b: str
    y: str


@dataclass(frozen=True)
class Call(Step):
    """An operator of the user's own (`engine.custom`), run in Python between native steps.

    Attributes:
        operator: "domain::Name", as it is registered.
        xs, ys: Codes or anything else: it gets and makes what these tensors hold.
        attributes: JSON of the node's attributes.
    """

    kind = "call"
    operator: str
    xs: tuple[str, ...]
    ys: tuple[str, ...]
    attributes: str = "{}"


@dataclass(frozen=True)
class FallbackSubgraph(Step):
    """What no kernel covers, run by ONNX Runtime between native steps.

    Attributes:
        model: Constant, uint8: a serialized ONNX model whose inputs and outputs carry these names. It reads
            floats: codes that come in or go out pass through Dequantize and Quantize steps.
        reason: Why it is not native.
    """

    kind = "onnx"
    xs: tuple[str, ...]
    ys: tuple[str, ...]
    model: str
    reason: str = field(default="")


OUTSIDE = (Call, FallbackSubgraph)
"""What native code does not run."""
