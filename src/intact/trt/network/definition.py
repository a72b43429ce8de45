"""INetworkDefinition: layers in the order in which they were added, and the model that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.errors import IntactError, QuantValueError, UnsupportedError
from intact.graph import Composer, Session
from intact.trt import layers as kinds
from intact.trt.dialects import Dialect, get_dialect
from intact.trt.enums import DataType, NetworkDefinitionCreationFlag, dtype_of, stored
from intact.trt.layers import IAttention, IIfConditional, ILayer, ILoop
from intact.trt.logger import ILogger, LogSeverity
from intact.trt.network.loops import ordered, write
from intact.trt.network.table import install
from intact.trt.objects import Reporting
from intact.trt.operations import AttentionNormalizationOp
from intact.trt.plugin import IPluginV2Layer, IPluginV3Layer
from intact.trt.plugins import adopt
from intact.trt.tensors import Answer, ITensor, Sizes

OPSET = 21
Layer = TypeVar("Layer", bound=ILayer)


class INetworkDefinition(Reporting):
    """A network; get one from ``Builder.create_network``.

    Attributes:
        name: Kept, shown by the inspector.
        flags: The creation flags; networks here have explicit batches, whatever is said.
        dialect: Whose rules its layers are checked by.
    """

    name: str = ""
    flags = property(lambda self: self._flags)
    dialect = property(lambda self: self._dialect)

    def __init__(self, logger: ILogger, flags: int = 0) -> None:
        self._flags = int(flags)
        self._dialect: Dialect = get_dialect()
        self._logger: ILogger = logger
        self._debugged: dict[ITensor, bool] = {}
        self._inputs: list[ITensor] = []
        self._outputs: list[ITensor] = []
        self._layers: list[ILayer] = []
        self._names: dict[str, ITensor | None] = {}
        self._domains: dict[str, int] = {"": OPSET}
        self._known: dict[str, Any] | None = None
        self._writing: Composer | None = None
        self._fixed: dict[str, Sizes] = {}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The calls of `table`."""

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
        return self._layers[index].as_layer() if 0 <= index < len(self._layers) else None

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: int) -> ILayer:
        return self._layers[index].as_layer()

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        """Whether the network was created with `flag`."""
        return bool(self._flags >> int(flag) & 1)

    @property
    def logger(self) -> ILogger:
        """Where its messages go."""
        return self._logger

    @property
    def tensors(self) -> list[ITensor]:
        """Every tensor: the inputs, then what each layer makes."""
        return [*self._inputs, *(tensor for layer in self._layers for tensor in layer._outputs)]

    # Inputs and outputs.

    def add_input(self, name: str, dtype: DataType, shape: Sizes) -> ITensor | None:
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

    def mark_output_for_shapes(self, tensor: ITensor) -> bool:
        """`tensor`, which holds sizes, is an output of the engine."""
        self.mark_output(tensor)
        return True

    def unmark_output_for_shapes(self, tensor: ITensor) -> bool:
        """`tensor` is no output any more."""
        self.unmark_output(tensor)
        return True

    def mark_debug(self, tensor: ITensor) -> bool:
        """`tensor` may be shown to a debug listener in every run."""
        self._debugged[tensor] = True
        return True

    def unmark_debug(self, tensor: ITensor) -> bool:
        """`tensor` is not shown any more."""
        return self._debugged.pop(tensor, False)

    def is_debug_tensor(self, tensor: ITensor) -> bool:
        """Whether `mark_debug` marked it."""
        return tensor in self._debugged

    def remove_tensor(self, tensor: ITensor) -> None:
        """Take an input that nobody reads out of the network."""
        self._inputs = [t for t in self._inputs if t is not tensor]
        self.touch()

    # Layers. Most calls are rows of `table`; parameters that are no arguments there are attributes.

    def add_loop(self) -> ILoop:
        """A loop: give it recurrences, a trip limit and outputs."""
        return ILoop(self)

    def add_if_conditional(self) -> IIfConditional:
        """A conditional: give it a condition and outputs."""
        return IIfConditional(self)

    def add_attention(
        self, query: ITensor, key: ITensor, value: ITensor, norm_op: AttentionNormalizationOp, causal: bool
    ) -> IAttention:
        """An attention: query [batch, heads, s_q, h], key and value [batch, heads or fewer, s_kv, h]."""
        begins = [self.add_layer(kinds.IAttentionInputLayer, given) for given in ((query, key), (value,))]
        ends = self.add_layer(kinds.IAttentionOutputLayer, (query, key, value))
        attention = IAttention(begins, ends)
        attention.norm_op, attention.causal = AttentionNormalizationOp(norm_op), bool(causal)
        return attention

    def add_moe(self, *_: Any, **__: Any) -> None:
        """None, with an error in the log: TensorRT has mixtures of experts for one kind of device only."""
        self.complain("INetworkDefinition::addMoE: MoE is only supported on Thor, and this is a CPU", None)

    def add_dist_collective(self, *_: Any, **__: Any) -> None:
        """None, with an error in the log: there is one device."""
        self.complain("INetworkDefinition::addDistCollective: there is one device, the CPU", None)

    def add_plugin(self, inputs: Sequence[ITensor], operator: str, **attributes: Any) -> IPluginV2Layer:
        """A layer of an operator that `plugin` registered under "domain::Name"."""
        return self.add_layer(IPluginV2Layer, tuple(inputs), operator=operator, attributes=attributes)

    def add_plugin_v2(self, inputs: Sequence[ITensor], plugin: Any) -> IPluginV2Layer:
        """A layer of a plugin in Python (an `IPluginV2DynamicExt`)."""
        operator = adopt(plugin, [t.dtype for t in inputs])
        return self.add_layer(IPluginV2Layer, tuple(inputs), operator=operator, _plugin=plugin)

    def add_plugin_v3(
        self, inputs: Sequence[ITensor], shape_inputs: Sequence[ITensor], plugin: Any
    ) -> IPluginV3Layer:
        """A layer of a plugin in Python (an `IPluginV3`).

        Raises:
            UnsupportedError: There are inputs that hold sizes.
        """
        if len(shape_inputs):
            raise UnsupportedError(
                "add_plugin_v3", f"{len(shape_inputs)} shape_inputs", "none: plugins get data and shapes",
                "pass them as inputs",
            )  # fmt: skip
        operator = adopt(plugin, [t.dtype for t in inputs])
        return self.add_layer(IPluginV3Layer, tuple(inputs), operator=operator, _plugin=plugin)

    def add_node(
        self, inputs: Sequence[ITensor | None], node: Any, domains: dict[str, int]
    ) -> kinds.IOnnxLayer:
        """A node of an ONNX file (for parsers)."""
        self._domains.update(domains)
        return self.add_layer(kinds.IOnnxLayer, tuple(inputs), node=node)

    def add_layer(self, kind: type[Layer], inputs: tuple[ITensor | None, ...], **parameters: Any) -> Layer:
        """A layer of `kind`, which every ``add_*`` call makes.

        Raises:
            QuantValueError: An input is no tensor.
        """
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

    def fix(self, values: dict[str, Sizes]) -> None:
        """The numbers that inputs of sizes have in every profile of a build; -1 where they differ."""
        self._fixed = values
        self.touch()

    def fixed(self, tensor: ITensor) -> Sizes | None:
        """What `fix` said of an input."""
        return self._fixed.get(tensor.name)

    def shape_of(self, tensor: ITensor) -> Sizes:
        """Sizes of a tensor; -1 where they are not known."""
        shape = self._known_of(tensor)[1]
        return tuple(n if isinstance(n, int) else -1 for n in shape) if shape is not None else ()

    def dtype_of(self, tensor: ITensor) -> DataType:
        """Element type of a tensor."""
        return dtype_of(self._known_of(tensor)[0])

    def _known_of(self, tensor: ITensor) -> tuple[Any, Any]:
        if self._known is None and self._writing is not None:  # a layer asks about one before it
            return self._writing.known([tensor.name])[tensor.name]
        if self._known is None:
            try:
                self._known = self._flat(self._layers).known(self._names)
            except (IntactError, ValueError):  # a layer behind `tensor`, perhaps, that `errors` will name
                return self._flat(self._up_to(tensor)).known([tensor.name])[tensor.name]
        found: tuple[Any, Any] = self._known.get(tensor.name, (None, None))
        return found

    def compose(self, hidden: Sequence[ITensor] = ()) -> Composer:
        """The network as ONNX nodes.

        Args:
            hidden: Tensors that a run must make too, behind the outputs.
        Raises:
            FileFormatError, ValueError: A layer cannot be written as it stands.
        """
        outputs = [*self._outputs, *hidden]
        for tensor in outputs:
            self._known_of(tensor)
        c = self._begun()
        write(c, self._layers)
        for tensor in outputs:
            c.output(tensor.name, *self._known_of(tensor))
        return c

    def value_of(self, tensor: ITensor) -> NDArray | None:
        """What `tensor` holds where it depends on no input of the network; None elsewhere."""
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
        c = self._begun()
        write(c, [layer for layer in self._layers if layer in layers])
        c.output(tensor.name, *self._known_of(tensor))
        zeros = {t.name: np.zeros([max(n, 1) for n in t.shape], t.dtype.numpy) for t in self._inputs}
        found: NDArray = Session(c.model().SerializeToString()).run(zeros)[tensor.name]
        return found

    def _flat(self, layers: Sequence[ILayer]) -> Composer:
        """These layers behind the inputs, as if each loop ran once: enough to tell types and shapes."""
        c = self._begun()
        self._writing = c
        try:
            for layer in ordered(layers):
                layer.emit(c)
        finally:
            self._writing = None
        return c

    def narrow(self) -> tuple[str, ...]:
        """Inputs and outputs that are bfloat16 for whoever runs the engine."""
        found = [t for t in self._inputs if t.dtype is DataType.BF16]
        for tensor in self._outputs:
            layer = tensor._producer
            asked = layer.to_type if isinstance(layer, kinds.ICastLayer) else None
            if (tensor._dtype or asked) is DataType.BF16:
                found.append(tensor)
        return tuple(tensor.name for tensor in found)

    def _begun(self) -> Composer:
        c = Composer(self._domains[""])
        c.require(self._domains)
        for tensor in self._inputs:
            axes = [tensor.get_dimension_name(i) or f"{tensor.name}.{i}" for i in range(len(tensor.shape))]
            shape = [n if n >= 0 else axis for n, axis in zip(tensor.shape, axes, strict=True)]
            c.input(tensor.name, stored(tensor.dtype), shape)
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
        self._report(message)
        return answer

    def warn(self, message: str) -> None:
        """Log a warning."""
        self._logger.log(LogSeverity.WARNING, message)


install(INetworkDefinition)
