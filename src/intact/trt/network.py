"""INetworkDefinition: layers in the order in which they were added, and the model that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from intact.errors import IntactError, QuantValueError
from intact.graph import Composer
from intact.trt import layers as kinds
from intact.trt.dialects import Dialect, get_dialect
from intact.trt.enums import (
    ActivationType,
    DataType,
    ElementWiseOperation,
    GatherMode,
    MatrixOperation,
    NetworkDefinitionCreationFlag,
    PoolingType,
    ReduceOperation,
    ScaleMode,
    TopKOperation,
    UnaryOperation,
    dtype_of,
)
from intact.trt.layers import ILayer
from intact.trt.logger import ILogger, LogSeverity
from intact.trt.plugin import IPluginV2Layer
from intact.trt.tensors import Answer, Dims, ITensor, Weights

OPSET = 21
Layer = TypeVar("Layer", bound=ILayer)
Array = Weights | NDArray | None


class INetworkDefinition:
    """A network; get one from ``Builder.create_network``.

    Attributes:
        name: Kept, shown by the inspector.
        flags: The creation flags; networks here have explicit batches, whatever is said.
        dialect: Whose rules its Quantize layers are checked by.
    """

    def __init__(self, logger: ILogger, flags: int = 0) -> None:
        self.name, self.flags = "", int(flags)
        self.dialect: Dialect = get_dialect()
        self._logger = logger
        self._inputs: list[ITensor] = []
        self._outputs: list[ITensor] = []
        self._layers: list[ILayer] = []
        self._names: dict[str, ITensor | None] = {}
        self._domains: dict[str, int] = {"": OPSET}
        self._known: dict[str, Any] | None = None
        self._writing: Composer | None = None

    # What it consists of.

    @property
    def inputs(self) -> tuple[ITensor, ...]:
        """Its inputs, in order."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[ITensor, ...]:
        """Its outputs, in order."""
        return tuple(self._outputs)

    @property
    def layers(self) -> tuple[ILayer, ...]:
        """Its layers, in order."""
        return tuple(self._layers)

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))
    num_layers = property(lambda self: len(self._layers))
    has_implicit_batch_dimension = property(lambda self: False)

    def get_input(self, index: int) -> ITensor | None:
        """Input `index`; None where there is none."""
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> ITensor | None:
        """Output `index`; None where there is none."""
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def get_layer(self, index: int) -> ILayer | None:
        """Layer `index`; None where there is none."""
        return self._layers[index] if 0 <= index < len(self._layers) else None

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> ILayer:
        return self._layers[index]

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        """Whether the network was created with `flag`."""
        return bool(self.flags >> int(flag) & 1)

    @property
    def tensors(self) -> list[ITensor]:
        """Every tensor: the inputs, then what each layer makes."""
        return [*self._inputs, *(tensor for layer in self._layers for tensor in layer._outputs)]

    # Inputs and outputs.

    def add_input(self, name: str, dtype: DataType, shape: Dims) -> ITensor | None:
        """An input of `shape`; -1 is a size that a run fixes.

        Returns:
            None, with an error in the log, where the name is taken.
        """
        if self._names.get(name) is not None:
            return self.complain(f"INetworkDefinition::addInput: there is a tensor '{name}' already", None)
        tensor = ITensor(self, name, dtype=DataType(dtype), shape=tuple(shape))
        self._names[name] = tensor
        self._inputs.append(tensor)
        self.touch()
        return tensor

    def mark_output(self, tensor: ITensor) -> None:
        """`tensor` is an output of the engine."""
        if not isinstance(tensor, ITensor):
            raise QuantValueError(
                "mark_output", f"a {type(tensor).__name__}", "an ITensor", "pass layer.get_output(0)"
            )
        if tensor not in self._outputs:
            self._outputs.append(tensor)
            self.touch()

    def unmark_output(self, tensor: ITensor) -> None:
        """`tensor` is no output any more."""
        self._outputs = [t for t in self._outputs if t is not tensor]
        self.touch()

    def remove_tensor(self, tensor: ITensor) -> None:
        """Take an input that nobody reads out of the network."""
        self._inputs = [t for t in self._inputs if t is not tensor]
        self.touch()

    # Layers. Parameters that are no arguments here are attributes of the layer.

    def add_constant(self, shape: Dims, weights: Array) -> kinds.IConstantLayer:
        """A constant of `shape`."""
        return self._add(kinds.IConstantLayer, (), shape=tuple(shape), weights=weights)

    def add_quantize(
        self, input: ITensor, scale: ITensor, output_type: DataType = DataType.INT8
    ) -> kinds.IQuantizeLayer:
        """Codes of `input`; `scale` comes from a constant."""
        return self._add(kinds.IQuantizeLayer, (input, scale), to_type=DataType(output_type))

    def add_dequantize(
        self, input: ITensor, scale: ITensor, output_type: DataType = DataType.FLOAT
    ) -> kinds.IDequantizeLayer:
        """The floats that codes mean; `scale` comes from a constant."""
        return self._add(kinds.IDequantizeLayer, (input, scale), to_type=DataType(output_type))

    def add_identity(self, input: ITensor) -> kinds.IIdentityLayer:
        """`input` itself; converted where the type of the output is set."""
        return self._add(kinds.IIdentityLayer, (input,))

    def add_cast(self, input: ITensor, to_type: DataType) -> kinds.ICastLayer:
        """`input` in another type."""
        return self._add(kinds.ICastLayer, (input,), to_type=DataType(to_type))

    def add_convolution_nd(
        self,
        input: ITensor,
        num_output_maps: int,
        kernel_shape: Dims,
        kernel: Array = None,
        bias: Array = None,
    ) -> kinds.IConvolutionLayer:
        """Convolution; without `kernel`, it is input 1."""
        return self._add_window(kinds.IConvolutionLayer, input, num_output_maps, kernel_shape, kernel, bias)

    add_convolution = add_convolution_nd

    def add_deconvolution_nd(
        self,
        input: ITensor,
        num_output_maps: int,
        kernel_shape: Dims,
        kernel: Array = None,
        bias: Array = None,
    ) -> kinds.IDeconvolutionLayer:
        """Transposed convolution; without `kernel`, it is input 1."""
        return self._add_window(kinds.IDeconvolutionLayer, input, num_output_maps, kernel_shape, kernel, bias)

    add_deconvolution = add_deconvolution_nd

    def add_matrix_multiply(
        self, input0: ITensor, op0: MatrixOperation, input1: ITensor, op1: MatrixOperation
    ) -> kinds.IMatrixMultiplyLayer:
        """Product of two stacks of matrices."""
        return self._add(kinds.IMatrixMultiplyLayer, (input0, input1), op0=op0, op1=op1)

    def add_activation(self, input: ITensor, type: ActivationType) -> kinds.IActivationLayer:
        """An activation function."""
        return self._add(kinds.IActivationLayer, (input,), activation_type=type)

    def add_pooling_nd(self, input: ITensor, type: PoolingType, window_size: Dims) -> kinds.IPoolingLayer:
        """A pool; its stride is 1 until it is set."""
        return self._add(kinds.IPoolingLayer, (input,), pooling_type=type, window_size_nd=tuple(window_size))

    add_pooling = add_pooling_nd

    def add_elementwise(
        self, input1: ITensor, input2: ITensor, op: ElementWiseOperation
    ) -> kinds.IElementWiseLayer:
        """A function of two tensors."""
        return self._add(kinds.IElementWiseLayer, (input1, input2), op=op)

    def add_unary(self, input: ITensor, op: UnaryOperation) -> kinds.IUnaryLayer:
        """A function of one tensor."""
        return self._add(kinds.IUnaryLayer, (input,), op=op)

    def add_scale(
        self, input: ITensor, mode: ScaleMode, shift: Array = None, scale: Array = None, power: Array = None
    ) -> kinds.IScaleLayer:
        """``(x * scale + shift) ** power``."""
        return self.add_scale_nd(input, mode, shift, scale, power, 1)

    def add_scale_nd(
        self, input: ITensor, mode: ScaleMode, shift: Array = None, scale: Array = None, power: Array = None,
        channel_axis: int = 1,
    ) -> kinds.IScaleLayer:  # fmt: skip
        """``(x * scale + shift) ** power`` with channels on `channel_axis`."""
        return self._add(
            kinds.IScaleLayer, (input,), mode=mode, shift=shift, scale=scale, power=power,
            channel_axis=channel_axis,
        )  # fmt: skip

    def add_softmax(self, input: ITensor) -> kinds.ISoftMaxLayer:
        """Softmax; set `axes`."""
        return self._add(kinds.ISoftMaxLayer, (input,))

    def add_normalization(
        self, input: ITensor, scale: ITensor, bias: ITensor, axesMask: int
    ) -> kinds.INormalizationLayer:
        """Layer, instance or group normalization."""
        return self._add(kinds.INormalizationLayer, (input, scale, bias), axes=int(axesMask))

    def add_reduce(
        self, input: ITensor, op: ReduceOperation, axes: int, keep_dims: bool
    ) -> kinds.IReduceLayer:
        """Sum, mean, ... over axes given as bits."""
        return self._add(kinds.IReduceLayer, (input,), op=op, axes=int(axes), keep_dims=bool(keep_dims))

    def add_concatenation(self, inputs: Sequence[ITensor]) -> kinds.IConcatenationLayer:
        """Tensors behind each other; set `axis`."""
        return self._add(kinds.IConcatenationLayer, tuple(inputs))

    def add_shuffle(self, input: ITensor) -> kinds.IShuffleLayer:
        """Transpose and reshape; set `first_transpose`, `reshape_dims`, `second_transpose`."""
        return self._add(kinds.IShuffleLayer, (input,))

    def add_slice(self, input: ITensor, start: Dims, shape: Dims, stride: Dims) -> kinds.ISliceLayer:
        """A part of a tensor."""
        return self._add(
            kinds.ISliceLayer, (input,), start=tuple(start), shape=tuple(shape), stride=tuple(stride)
        )

    def add_select(self, condition: ITensor, then_input: ITensor, else_input: ITensor) -> kinds.ISelectLayer:
        """Elements of one tensor or the other."""
        return self._add(kinds.ISelectLayer, (condition, then_input, else_input))

    def add_gather(self, input: ITensor, indices: ITensor, axis: int) -> kinds.IGatherLayer:
        """Slices along `axis`."""
        return self._add(kinds.IGatherLayer, (input, indices), axis=axis)

    def add_gather_v2(self, input: ITensor, indices: ITensor, mode: GatherMode) -> kinds.IGatherLayer:
        """Slices, elements or N-D indices."""
        return self._add(kinds.IGatherLayer, (input, indices), mode=mode)

    def add_resize(self, input: ITensor) -> kinds.IResizeLayer:
        """Another size; set `shape` or `scales`."""
        return self._add(kinds.IResizeLayer, (input,))

    def add_topk(self, input: ITensor, op: TopKOperation, k: int, axes: int) -> kinds.ITopKLayer:
        """The k largest or smallest, and their indices."""
        return self._add(kinds.ITopKLayer, (input,), op=op, k=int(k), axes=int(axes))

    def add_padding_nd(self, input: ITensor, pre_padding: Dims, post_padding: Dims) -> kinds.IPaddingLayer:
        """Zeros around the two last axes."""
        return self._add(
            kinds.IPaddingLayer,
            (input,),
            pre_padding_nd=tuple(pre_padding),
            post_padding_nd=tuple(post_padding),
        )

    add_padding = add_padding_nd

    def add_shape(self, input: ITensor) -> kinds.IShapeLayer:
        """The sizes of a tensor."""
        return self._add(kinds.IShapeLayer, (input,))

    def add_plugin(self, inputs: Sequence[ITensor], operator: str, **attributes: Any) -> IPluginV2Layer:
        """A layer of an operator that `plugin` registered under "domain::Name"."""
        return self._add(IPluginV2Layer, tuple(inputs), operator=operator, attributes=attributes)

    def add_node(
        self, inputs: Sequence[ITensor | None], node: Any, domains: dict[str, int]
    ) -> kinds.IOnnxLayer:
        """A node of an ONNX file (for parsers)."""
        self._domains.update(domains)
        return self._add(kinds.IOnnxLayer, tuple(inputs), node=node)

    def _add_window(
        self, kind: type[Layer], input: ITensor, outputs: int, shape: Dims, kernel: Array, bias: Array
    ) -> Layer:
        return self._add(
            kind, (input,), num_output_maps=outputs, kernel_size_nd=tuple(shape), kernel=kernel, bias=bias
        )

    def _add(self, kind: type[Layer], inputs: tuple[ITensor | None, ...], **parameters: Any) -> Layer:
        for index, tensor in enumerate(inputs):
            if tensor is not None and not isinstance(tensor, ITensor):
                raise QuantValueError(
                    f"{kind.__name__}, input {index}", f"a {type(tensor).__name__}", "an ITensor",
                    "pass a layer's get_output(...) or what add_input returned",
                )  # fmt: skip
        layer = kind(self, inputs, **parameters)
        self._layers.append(layer)
        self.touch()
        return layer

    # Names.

    def unnamed(self, title: str) -> str:
        """What TensorRT calls a layer that nobody named."""
        return f"(Unnamed Layer* {len(self._layers)}) [{title}]"

    def unused(self, wanted: str) -> str:
        """A tensor's name that is not taken, kept for whoever asks."""
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names[name] = None
        return name

    def rename(self, tensor: ITensor, name: str) -> None:
        """Give `tensor` another name."""
        if name == tensor.name:
            return
        if name in self._names:
            raise QuantValueError(
                f"tensor '{tensor.name}'", f"the name '{name}', which is taken", "a name of its own",
                "choose another one",
            )  # fmt: skip
        self._names.pop(tensor.name, None)
        self._names[name] = tensor
        tensor._name = name
        self.touch()

    # What it means.

    def touch(self) -> None:
        """Something changed: forget what was derived."""
        self._known = None

    def shape_of(self, tensor: ITensor) -> Dims:
        """Sizes of a tensor; -1 where they are not known."""
        shape = self._known_of(tensor)[1]
        return tuple(n if isinstance(n, int) else -1 for n in shape) if shape is not None else ()

    def dtype_of(self, tensor: ITensor) -> DataType:
        """Element type of a tensor."""
        return dtype_of(self._known_of(tensor)[0])

    def _known_of(self, tensor: ITensor) -> tuple[Any, Any]:
        if self._writing is not None:  # a layer asks about one before it
            return self._writing.known([tensor.name])[tensor.name]
        if self._known is None:
            try:
                self._known = self.compose(outputs=False).known(self._names)
            except (IntactError, ValueError):  # a layer behind `tensor`, perhaps, that `errors` will name
                return self._written(self._up_to(tensor)).known([tensor.name])[tensor.name]
        found: tuple[Any, Any] = self._known.get(tensor.name, (None, None))
        return found

    def compose(self, *, outputs: bool = True) -> Composer:
        """The network as ONNX nodes.

        Raises:
            FileFormatError, ValueError: A layer cannot be written as it stands.
        """
        c = self._written(self._layers)
        for tensor in self._outputs if outputs else ():
            c.output(tensor.name, *c.known([tensor.name])[tensor.name])
        return c

    def _written(self, layers: Sequence[ILayer]) -> Composer:
        """These layers behind the inputs."""
        c = Composer(self._domains[""])
        c.require(self._domains)
        for tensor in self._inputs:
            shape = [n if n >= 0 else f"{tensor.name}.{i}" for i, n in enumerate(tensor.shape)]
            c.input(tensor.name, tensor.dtype.numpy.name, shape)
        self._writing = c
        try:
            for layer in layers:
                layer.emit(c)
        finally:
            self._writing = None
        return c

    def _up_to(self, tensor: ITensor) -> list[ILayer]:
        """The layers up to the one that makes `tensor`."""
        makers = [i for i, layer in enumerate(self._layers) if layer is tensor._producer]
        return self._layers[: makers[0] + 1] if makers else []

    def errors(self) -> list[str]:
        """What TensorRT would refuse to build, one message for each thing."""
        found = [f"{layer.name}: {message}" for layer in self._layers for message in layer.check()]
        if not self._outputs:
            found.append("Network must have at least one output")
        return found

    # Messages.

    def complain(self, message: str, answer: Answer) -> Answer:
        """Log an error; `answer` is what the call returns then."""
        self._logger.log(LogSeverity.ERROR, message)
        return answer

    def warn(self, message: str) -> None:
        """Log a warning."""
        self._logger.log(LogSeverity.WARNING, message)
