"""The contents of a network, and its ONNX model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower import fold_sizes
from intact.errors import IntactError
from intact.graph import STORED, UNKNOWN_SIZE, Session, TypedComposer
from intact.trt import layers as kinds
from intact.trt.base.enums import DataType, dtype_of
from intact.trt.base.itensor import ITensor, Sizes
from intact.trt.base.trt_object import Reporting
from intact.trt.layers import ILayer
from intact.trt.network.loop_bodies import tensors_before, topological_order, write

OPSET = 21


class NetworkModel(Reporting):
    """Holds inputs, outputs and layers, and derives types, shapes, nodes and errors."""

    def __init__(self) -> None:
        self._inputs: list[ITensor] = []
        self._outputs: list[ITensor] = []
        self._layers: list[ILayer] = []
        self._names: dict[str, ITensor | None] = {}
        self._domains: dict[str, int] = {"": OPSET}
        self._types_and_shapes: dict[str, Any] | None = None
        self._writing: TypedComposer | None = None
        self._constant_sizes: dict[str, Sizes] = {}

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

    def get_input(self, index: int) -> ITensor | None:
        """Return input `index`; None where there is none."""
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> ITensor | None:
        """Return output `index`; None where there is none."""
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def get_layer(self, index: int) -> ILayer | None:
        """Return layer `index`; None where there is none."""
        return self._layers[index].as_layer() if 0 <= index < len(self._layers) else None

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> ILayer:
        return self._layers[index].as_layer()

    @property
    def tensors(self) -> list[ITensor]:
        """Return every tensor: the inputs, then each layer's outputs."""
        return [*self._inputs, *(tensor for layer in self._layers for tensor in layer._outputs)]

    # What it means.

    def touch(self) -> None:
        """Forget derived values, after a change."""
        self._types_and_shapes = None

    def fix(self, values: dict[str, Sizes]) -> None:
        """Set the numbers that inputs of sizes have in every profile of a build; -1 where they differ."""
        self._constant_sizes = values
        self.touch()

    def constant_sizes(self, tensor: ITensor) -> Sizes | None:
        """Return the sizes that `fix` set for an input."""
        return self._constant_sizes.get(tensor.name)

    def shape_of(self, tensor: ITensor) -> Sizes:
        """Return the sizes of a tensor; -1 where they are unknown."""
        shape = self._type_and_shape(tensor)[1]
        return tuple(n if isinstance(n, int) else -1 for n in shape) if shape is not None else ()

    def dtype_of(self, tensor: ITensor) -> DataType:
        """Return the element type of a tensor."""
        return dtype_of(self._type_and_shape(tensor)[0])

    def dtype_after_inference(self, tensor: ITensor) -> DataType | None:
        """Return the element type of a tensor once the whole network is inferred; None before."""
        if self._types_and_shapes is None:
            return None
        return dtype_of(self._types_and_shapes.get(tensor.name, (None, None))[0])

    def _type_and_shape(self, tensor: ITensor) -> tuple[Any, Any]:
        """Return type and sizes of a tensor; those that its file declares where no operator tells a rank."""
        dtype, shape = self._infer_type_and_shape(tensor)
        return dtype, tensor._declared_shape if shape is None else shape

    def _infer_type_and_shape(self, tensor: ITensor) -> tuple[Any, Any]:
        if self._types_and_shapes is None and self._writing is not None:  # a layer asks about one before it
            return _infer(self._writing, [tensor.name])[tensor.name]
        if self._types_and_shapes is None:
            try:
                self._types_and_shapes = _infer(self._flat(self._layers), self._names)
            except (IntactError, ValueError):  # a layer behind `tensor`, perhaps, that `errors` will name
                return self._infer_alone(tensor)
        entry: tuple[Any, Any] = self._types_and_shapes.get(tensor.name, (None, None))
        return entry

    def _infer_alone(self, tensor: ITensor, logs: bool = True) -> tuple[Any, Any]:
        """Infer from the layers that `tensor` comes from; with `logs`, log what is wrong there."""
        try:
            return _infer(self._flat(self._up_to(tensor)), [tensor.name])[tensor.name]
        except (IntactError, ValueError) as error:
            text = f"{error.where}: {error.got}" if isinstance(error, IntactError) else str(error)
            if logs:
                self._report(f"tensor '{tensor.name}' has no type and shape: {text}")
            return None, None

    def compose(self, further: Sequence[ITensor] = ()) -> TypedComposer:
        """Return the network as ONNX nodes.

        Args:
            further: Tensors that a run must make too, behind the outputs.
        Raises:
            FileFormatError, ValueError: A layer cannot be written as it stands.
        """
        outputs = [*self._outputs, *further]
        for tensor in outputs:
            self._type_and_shape(tensor)
        c = self._start_model()
        write(c, self._layers)
        for tensor in outputs:
            c.output(tensor.name, *self._type_and_shape(tensor))
        return c

    def value_of(self, tensor: ITensor) -> NDArray | None:
        """Return the constant value of `tensor`; None where it depends on an input of the network."""
        layers, stack, seen = [], [tensor], set[ITensor]()
        while stack:
            current = stack.pop()
            if current._producer is None:
                return None
            if current not in seen:
                seen.add(current)
                layer = current._producer
                assert isinstance(layer, ILayer)
                if not isinstance(layer, kinds.IShapeLayer):
                    stack += [t for t in layer._inputs if t is not None]
                elif -1 in layer._inputs[0].shape:  # type: ignore[union-attr]
                    return None
                layers.append(layer)
        c = self._start_model()
        write(c, [layer for layer in self._layers if layer in layers])
        c.output(tensor.name, *self._type_and_shape(tensor))
        zeros = {
            t.name: np.zeros([max(n, 1) for n in t.shape], STORED.get(dtype := _inner_type(t), dtype))
            for t in self._inputs
        }
        value: NDArray = Session(c.load()).run(zeros)[tensor.name]
        return value

    def _flat(self, layers: Sequence[ILayer]) -> TypedComposer:
        """Write these layers behind the inputs as if each loop ran once, which is enough to infer types and
        shapes.
        """
        c = self._start_model()
        self._writing = c
        try:
            for layer in topological_order(layers):
                _emit(layer, c)
        finally:
            self._writing = None
        return c

    def _start_model(self) -> TypedComposer:
        c = TypedComposer(self._domains[""])
        c.require(self._domains)
        for tensor in self._inputs:
            axes = [tensor.get_dimension_name(i) or f"{tensor.name}.{i}" for i in range(len(tensor.shape))]
            shape = [n if n >= 0 else axis for n, axis in zip(tensor.shape, axes, strict=True)]
            c.input(tensor.name, _inner_type(tensor), shape)
        return c

    def _up_to(self, tensor: ITensor) -> list[ILayer]:
        """Return the layers that `tensor` comes from, in their own order."""
        makers, stack = set[ILayer](), [tensor]
        while stack:
            maker = stack.pop()._producer
            if isinstance(maker, ILayer) and maker not in makers:
                makers.add(maker)
                stack += [t for t in tensors_before(maker, alone=True) if t is not None]
        return [layer for layer in self._layers if layer in makers]

    def errors(self) -> list[str]:
        """Return TensorRT's refusals at a build, one message for each fault."""
        messages, wrong = list[str](), set[ITensor]()
        for layer in self._layers:
            behind = [t for t in layer._inputs if t in wrong]
            if any(self._infer_alone(t, logs=False)[1] is None for t in behind):
                problems = []  # there are no shapes to check it by
            else:
                problems = [f"{layer.name}: {message}" for message in layer.check() or layer.type_errors()]
            messages += problems
            if problems or behind:
                wrong.update(layer._outputs)
        if not self._outputs:
            messages.append("Network must have at least one output")
        return messages


def _emit(layer: ILayer, c: TypedComposer) -> None:
    """Write a layer, which may not have been checked yet.

    Raises:
        ValueError: TensorRT refuses the layer, and it cannot be written.
    """
    try:
        layer.emit(c)
    except Exception as error:
        problems = layer.check()
        if problems:
            raise ValueError(f"{layer.name}: {problems[0]}") from error
        raise


def _inner_type(tensor: ITensor) -> str:
    """Return NumPy's name of the type that layers read an input in, whatever type callers give it."""
    return (tensor._inner_dtype or tensor.dtype).numpy.name


def _infer(composer: TypedComposer, names: Collection[str]) -> dict[str, tuple[Any, Any]]:
    """Return types and shapes of values, with our own inference where ONNX's loses computed sizes."""
    inferred = composer.types_of(names)
    incomplete = [
        name for name, (_, shape) in inferred.items() if shape is None or any(map(_is_unknown, shape))
    ]
    if not incomplete:
        return inferred
    try:
        model = composer.skeleton()
        fold_sizes(model)
    except IntactError:  # a node that only a build can judge
        return inferred
    values = {v.name: v for node in model.graph for v in node.outputs}
    for name in incomplete:
        value = values.get(name)
        if value is not None and value.shape is not None and value.dtype is not None:
            sizes = tuple(n if isinstance(n, int) else n.value for n in value.shape)
            inferred[name] = inferred[name][0] or value.dtype.numpy().name, sizes
    return inferred


def _is_unknown(size: int | str | None) -> bool:
    """Return whether ONNX's inference could not tell a size, which it then leaves out or gives a name of its
    own.
    """
    return size is None or (isinstance(size, str) and size.startswith(UNKNOWN_SIZE))
