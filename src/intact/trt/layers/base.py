"""ILayer, the base of all layers of a network, and how a layer becomes ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import DTYPES, TypedComposer
from intact.trt.base.dialects import Dialect, DialectChoice, message_of
from intact.trt.base.enums import DataType, NetworkDefinitionCreationFlag
from intact.trt.base.itensor import ITensor, OwningNetwork, Sizes, plain
from intact.trt.base.operation_enums import LayerType
from intact.trt.base.removed_members import hide_removed
from intact.trt.base.trt_object import Interface

CONVERTED = (DataType.INT32, DataType.INT64, DataType.BOOL, DataType.UINT8)
CODES_AS_FLOATS = {DataType.FP8: "float32", DataType.INT4: "float32"}
"""Codes that ONNX's operators and ONNX Runtime do not move, and the type that holds each of them."""


class ILayer(Interface):
    """One layer, made by the ``add_*`` calls of a network.

    Its parameters are plain attributes. Setting one is enough, because the network is written when it is
    built.

    Attributes:
        metadata: Free text, kept.
    """

    TYPE: ClassVar[LayerType] = LayerType.OTHER
    TITLE: ClassVar[str] = ""
    IS_PARSED: ClassVar[bool] = False
    """True for a node of an ONNX file, whose parameters are in the node."""
    OUTPUTS: ClassVar[int] = 1
    OUTPUT_NAME: ClassVar[str] = " ({})"
    """The suffix that TensorRT gives names of outputs other than the first."""
    VALUES: ClassVar[tuple[int, ...]] = ()
    """Inputs whose values decide the output's shape."""
    DATA_DEPENDENT: ClassVar[bool] = False
    """True where data, and not only shapes, decide the sizes of the outputs."""
    OF_SHAPES: ClassVar[bool] = False
    """True where the output depends only on the shapes of the inputs."""
    SAME_TYPE: ClassVar[tuple[int, ...] | None] = None
    """Inputs that have one type in a strongly typed network; (): all of them; None: no rule."""
    MOVED_INPUT: ClassVar[int] = 0
    """The input whose elements the output has, of a layer with `CARRIERS`."""
    CARRIERS: ClassVar[Mapping[DataType, str]] = {}
    """Types of data that its ONNX operator lacks, and the types that take their place inside."""
    metadata: str = ""
    num_ranks: int = 1

    def __init__(self, network: OwningNetwork, inputs: tuple[ITensor | None, ...], **parameters: Any) -> None:
        self._network, self._inputs = network, list(inputs)
        self._logger, self._kind = network.logger, type(self)
        self._name = ""
        self._precision: DataType | None = None
        self._types: dict[int, DataType] = {}
        for key, value in parameters.items():
            setattr(self, key, value)
        self._name = network.name_for(self._title())
        self._outputs: list[ITensor] = []
        for i in range(self._count()):
            number = self.OUTPUT_NAME.format(i) if i else ""
            name = network.free_name(f"{self._name}_output{number}")
            self._outputs.append(ITensor(network, name, producer=self))

    @property
    def _choice(self) -> DialectChoice:  # type: ignore[override]
        return self._network._choice

    def as_layer(self) -> ILayer:
        """Return the layer as ``network.get_layer`` gives it: an `ILayer`, until ``__class__`` is set."""
        view = object.__new__(ILayer)
        object.__setattr__(view, "__dict__", self.__dict__)
        return view

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ILayer) and other.__dict__ is self.__dict__

    def __hash__(self) -> int:
        return id(self.__dict__)

    def __setattr__(self, key: str, value: Any) -> None:
        if key == "__class__" and self._kind.IS_PARSED and getattr(value, "TYPE", None) == self.type:
            return  # it stays a node of its file, and has none of the attributes of that class
        if key == "__class__" and not issubclass(self._kind, value):
            raise QuantValueError(
                f"layer '{self.name}'", f"the class {value.__name__}", f"{self._kind.__name__}, which it is",
                "ask layer.type first; what a parser read has the node as layer.node",
            )  # fmt: skip
        super().__setattr__(key, value if key.startswith("_") else plain(value))
        if "_outputs" in self.__dict__:
            self._network.touch()

    def _on_images(
        self, c: TypedComposer, op_type: str, x: list[str], y: str, name: str, **attributes: Any
    ) -> None:
        """Write a node whose first input needs a batch axis in ONNX, also where the network has none."""
        data = self.get_input(0)
        spatial = len(attributes.get("kernel_shape") or attributes.get("strides") or (0, 0))
        if not self._network.has_implicit_batch_dimension or data is None or len(data.shape) != spatial + 1:
            return c.node(op_type, x, [y], name=name, **attributes)
        n = Nodes(c, name)
        batched = c.fresh(f"{name}.batch")
        c.node(op_type, [n("Unsqueeze", x[0], n.ints(0)), *x[1:]], [batched], name=batched, **attributes)
        n("Squeeze", batched, n.ints(0), to=y)
        return None

    def _title(self) -> str:
        """Return TensorRT's name of an unnamed layer of this kind: "Convolution"."""
        return self.TITLE or "".join(part.capitalize() for part in self.TYPE.name.split("_"))

    def _count(self) -> int:
        return self.OUTPUTS

    @property
    def type(self) -> LayerType:
        """Return the kind of layer."""
        return self._kind.layer_type(self)

    def layer_type(self) -> LayerType:
        """Return the kind of layer, whatever ``type`` means for its class."""
        return self._kind.TYPE

    @property
    def name(self) -> str:
        """Return its name, which reports and errors show."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def num_inputs(self) -> int:
        """Return the number of its inputs."""
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        """Return the number of its outputs."""
        return len(self._outputs)

    def get_input(self, index: int) -> ITensor | None:
        """Return input `index`; None where there is none."""
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> ITensor | None:
        """Return output `index`; None where there is none."""
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def set_input(self, index: int, tensor: ITensor) -> None:
        """Connect input `index` to `tensor`; inputs in between stay open.

        Args:
            index: Which.
            tensor: Of the same network.
        Raises:
            QuantValueError: It is no ITensor.
        """
        if not isinstance(tensor, ITensor):
            raise QuantValueError(
                f"layer '{self.name}', input {index}", f"a {type(tensor).__name__}", "an ITensor",
                "pass a layer's get_output(...) or what add_input returned",
            )  # fmt: skip
        if index >= len(self._inputs):
            self._inputs.extend([None] * (index + 1 - len(self._inputs)))
        self._inputs[index] = tensor
        self._network.touch()

    def wire(self, index: int, tensor: ITensor | None) -> None:
        """Connect optional input `index` to `tensor`, or to nothing where that is None."""
        if tensor is not None:
            self.set_input(index, tensor)
        elif index < len(self._inputs):
            self._inputs[index] = None
            self._network.touch()

    @property
    def precision(self) -> DataType:
        """Return the precision that the layer is pinned to; float32 where it is not."""
        return self._precision if self._precision is not None else DataType.FLOAT

    @precision.setter
    def precision(self, precision: DataType) -> None:
        self._precision = DataType(precision)

    @property
    def precision_is_set(self) -> bool:
        """Return whether `precision` was set."""
        return self._precision is not None

    def reset_precision(self) -> None:
        """Let the builder choose the precision again."""
        self._precision = None

    def set_output_type(self, index: int, dtype: DataType) -> None:
        """Fix the type of output `index`. Between floats and codes, only the precision decides."""
        if dtype not in (*CONVERTED, DataType.FLOAT):
            self._note("set_output_type")
        self._types = {**self._types, index: DataType(dtype)}

    def get_output_type(self, index: int) -> DataType:
        """Return the type of output `index`."""
        output = self.get_output(index)
        return self._types.get(index, output.dtype if output is not None else DataType.FLOAT)

    def output_type_is_set(self, index: int) -> bool:
        """Return whether `set_output_type` fixed output `index`."""
        return index in self._types

    def reset_output_type(self, index: int) -> None:
        """Let the type of output `index` follow from the layer again."""
        self._types = {i: t for i, t in self._types.items() if i != index}

    def check(self) -> list[str]:
        """Return TensorRT's refusals of the layer at a build: its own words, without the layer's name."""
        return []

    def type_errors(self) -> list[str]:
        """Return what a strongly typed network refuses: inputs that should have one type and do not."""
        strongly = self._network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        if self.SAME_TYPE is None or not strongly:
            return []
        places = self.SAME_TYPE or range(len(self._inputs))
        types = dict.fromkeys(t.dtype.name for i in places if (t := self.get_input(i)) is not None)
        if len(types) < 2:
            return []
        return [
            f"inputs of a strongly typed network must have the same type, and these are {', '.join(types)}"
        ]

    def _vector(self, n: Nodes, index: int) -> str:
        """Return input `index` as a vector of int64, as a constant where it is one, so that shapes
        are known.
        """
        tensor = self._inputs[index]
        assert tensor is not None
        layer = tensor._producer
        if isinstance(layer, ILayer) and layer.TYPE is LayerType.CONSTANT:
            return n.ints(*np.asarray(layer.array).reshape(-1).astype(np.int64).tolist())  # type: ignore[attr-defined]
        return n("Reshape", n.cast(tensor.name, "int64"), n.ints(-1))

    def _refuse_in(self, dialect: Dialect, message: str) -> list[str]:
        """Return `message` in 8.x or from 10.x on, and nothing in others.

        It names a dialect that takes the layer.
        """
        own = self._network.dialect
        return [message_of(own, message)] if (own == "8.x") == (dialect == "8.x") else []

    def emit(self, c: TypedComposer) -> None:
        """Write the layer into `c`, with inputs and outputs under the tensors' names."""
        inputs = [t.name if t is not None else "" for t in self._inputs]
        restored = self._widen(c, inputs)
        casts = [self._cast_to(i) or restored for i in range(len(self._outputs))]
        names = [
            t.name if to is None else c.fresh(f"{t.name}.uncast")
            for t, to in zip(self._outputs, casts, strict=True)
        ]
        self._emit(c, inputs, names)
        for index, (tensor, name, to) in enumerate(zip(self._outputs, names, casts, strict=True)):
            if (sizes := self._output_sizes(index)) is not None:
                c.declare(name, sizes)
            if tensor._known_type is not None:
                c.set_type(name, tensor._known_type)
            if to == DTYPES["int8"] and tensor.dynamic_range is not None:
                self._quantize(c, name, tensor)
            elif to is not None:
                c.node("Cast", [name], [tensor.name], name=f"{self.name}.cast", to=to)

    def _widen(self, c: TypedComposer, inputs: list[str]) -> int | None:
        """Cast inputs to the type that `CARRIERS` has for the data; return the ONNX type of the data.

        Outputs are cast back to it. None: the operator takes the data's type.
        """
        if not any(c.has_seen(dtype.numpy.name) for dtype in self.CARRIERS):
            return None
        data = self.get_input(self.MOVED_INPUT)
        dtype = data.dtype if data is not None else None
        if dtype is None or dtype not in self.CARRIERS:
            return None
        n = Nodes(c, self.name)
        for index, tensor in enumerate(self._inputs):
            if tensor is not None and tensor.dtype is dtype:
                inputs[index] = n.cast(inputs[index], self.CARRIERS[dtype])
        return DTYPES[dtype.numpy.name]

    def _quantize(self, c: TypedComposer, name: str, tensor: ITensor) -> None:
        """Write floats as codes of the range that was set, by the reciprocal of the scale (N35), to
        `tensor`.
        """
        n = Nodes(c, f"{self.name}.cast")
        scale = np.float32(max(map(abs, tensor.dynamic_range or (0.0,))) / 127)
        steps = n("Mul", name, n.array(np.float32(1) / scale))
        codes = n("Clip", n("Round", steps), n.array(np.float32(-128)), n.array(np.float32(127)))
        c.node("Cast", [codes], [tensor.name], name=n.prefix, to=DTYPES["int8"])

    def _output_sizes(self, index: int) -> Sizes | None:
        """Return extra knowledge of output `index`'s sizes beyond the operators, with -1 for unknown ones."""
        return None

    def _numbers(self) -> Sizes | None:
        """Return the values of its output, where these are sizes, with -1 where only a run decides; None: not
        tracked.
        """
        return None

    def _cast_to(self, index: int) -> int | None:
        """Return the ONNX type to which output `index` is cast; None where it is not.

        `set_output_type` with a type of floats or codes is a wish about precision; see `precision`.
        """
        output_type, tensor = self._types.get(index), self._outputs[index]
        if output_type is None and tensor.is_network_output and tensor._dtype is not None:
            if tensor._dtype is DataType.INT8 and tensor.dynamic_range is None:
                raise ValueError(f"output '{tensor.name}' of int8 needs a range: call set_dynamic_range")
            return DTYPES.get(tensor._dtype.numpy.name)
        return DTYPES[output_type.numpy.name] if output_type in CONVERTED else None

    def _emit(self, c: TypedComposer, x: list[str], y: list[str]) -> None:
        raise NotImplementedError(f"{type(self).__name__} writes no nodes")

    def __repr__(self) -> str:
        return f"{self._kind.__name__}({self.name!r})"


hide_removed(ILayer)


class Nodes:
    """Writes the nodes of one layer. Each call writes a node, and returns the name of its output."""

    def __init__(self, c: TypedComposer, prefix: str) -> None:
        self.c, self.prefix = c, prefix

    def __call__(self, op_type: str, *inputs: str, to: str | None = None, **attributes: Any) -> str:
        """Write a node. `to` names its output where that is the layer's own."""
        output = to if to is not None else self.c.fresh(f"{self.prefix}.{op_type}")
        name = self.prefix if to is not None else output
        self.c.node(op_type, inputs, [output], name=name, **attributes)
        return output

    def ints(self, *values: int, shape: tuple[int, ...] | None = None) -> str:
        """Return a constant of int64; a vector, unless `shape` says otherwise."""
        return self.array(np.asarray(values, np.int64).reshape((-1,) if shape is None else shape))

    def array(self, values: Any) -> str:
        """Return a constant."""
        return self.c.constant(f"{self.prefix}.constant", values)

    def floats(self, name: str) -> str:
        """Return `name`, a tensor of floats, in float32."""
        return self.cast(name, "float32") if self.c.type_of(name) is not None else name

    def cast(self, value: str, dtype: str) -> str:
        """Return `value` in another element type."""
        converted = self.c.fresh(f"{value}.{dtype}")
        self.c.node("Cast", [value], [converted], name=converted, to=DTYPES[dtype])
        return converted

    def sizes(self, name: str) -> str:
        """Return the sizes of `name`, int64."""
        return self("Shape", name)

    def size(self, name: str, axis: int) -> str:
        """Return one size of `name`, as a vector of one."""
        return self("Slice", self.sizes(name), self.ints(axis), self.ints(axis + 1))

    def scalar(self, name: str) -> str:
        """Return a tensor of one element without its axes."""
        return self("Reshape", name, self.ints())


def sizes_in(tensor: ITensor | None) -> Sizes | None:
    """Return the numbers in a tensor that holds sizes, -1 where only a run decides; None: not even
    how many.
    """
    if tensor is None or len(tensor.shape) > 1 or -1 in tensor.shape:
        return None
    layer = tensor._producer
    numbers = layer._numbers() if isinstance(layer, ILayer) else tensor._network.constant_sizes(tensor)
    return numbers if numbers is not None else (-1,) * (tensor.shape[0] if tensor.shape else 1)


def axes_of(mask: int, rank: int) -> tuple[int, ...]:
    """Return the axes whose bits are set in `mask`, as TensorRT writes sets of axes."""
    return tuple(axis for axis in range(max(rank, int(mask).bit_length())) if mask >> axis & 1)


def int64(values: Sequence[int]) -> NDArray[np.int64]:
    """Return sizes, axes or pads as ONNX takes them."""
    return np.asarray(list(values), np.int64)


def rank_of(tensor: ITensor | None, default: int = 0) -> int:
    """Return the number of axes of `tensor`; `default` where there is none."""
    return len(tensor.shape) if tensor is not None else default
