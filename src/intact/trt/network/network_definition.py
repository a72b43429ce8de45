"""INetworkDefinition: the calls that build a network, in the order of their use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from intact.errors import QuantValueError, UnsupportedError
from intact.trt import layers as kinds
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import (
    DataType,
    NetworkDefinitionCreationFlag,
    bits_of_10,
    bits_of_dialect,
    member_of,
)
from intact.trt.base.host_interfaces import IHostMemory, ILogger, LogSeverity
from intact.trt.base.itensor import ITensor, Result, Sizes, array_of, plain
from intact.trt.base.operation_enums import AttentionNormalizationOp, CausalMaskKind
from intact.trt.base.removed_members import hide_removed
from intact.trt.layers import IAttention, IIfConditional, ILayer, ILoop
from intact.trt.network.add_methods import install
from intact.trt.network.onnx_model import NetworkModel
from intact.trt.plugins.plugin import IPluginV2Layer, IPluginV3Layer
from intact.trt.plugins.plugin_registry import adopt

Layer = TypeVar("Layer", bound=ILayer)


class INetworkDefinition(NetworkModel):
    """A network; get one from ``Builder.create_network``.

    Attributes:
        name: Kept, shown by the inspector.
        flags: The creation flags; networks here have explicit batches, whatever is said. In dialect 11.x
            every network is strongly typed.
        dialect: Whose rules its layers are checked by.
    """

    name: str = ""
    flags = property(lambda self: bits_of_dialect(NetworkDefinitionCreationFlag, self._flags, self.dialect))
    dialect = property(lambda self: self._choice.dialect)

    def __init__(self, logger: ILogger, flags: int = 0, choice: DialectChoice | None = None) -> None:
        super().__init__()
        self._choice: DialectChoice = choice if choice is not None else DialectChoice().look()
        self._flags = bits_of_10(NetworkDefinitionCreationFlag, int(flags), self.dialect)
        if self.dialect == "11.x":
            self._flags |= 1 << int(NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        self._logger: ILogger = logger
        self._debugged: dict[ITensor, bool] = {}
        self._shows_unfused = False
        self._builder: Any = None
        self._refittable: set[str] = set()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the ``add_*`` calls of `table`."""

    def look_at_script(self) -> None:
        """Find the dialect of the script that calls, where nothing has decided it yet."""
        if not self._choice.is_explicit:
            self._choice.look()

    @property
    def has_implicit_batch_dimension(self) -> bool:
        """Return whether shapes leave the batch out: TensorRT 8's networks without the flag EXPLICIT_BATCH.

        Such a network is that of one sample; `IExecutionContext.execute` runs it once for each. A file that
        was parsed has its batch in its shapes.
        """
        explicit = self.dialect != "8.x" or self.get_flag(NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
        return not explicit and not any(layer._kind is kinds.IOnnxLayer for layer in self._layers)

    has_explicit_precision = property(
        lambda self: self.get_flag(NetworkDefinitionCreationFlag.EXPLICIT_PRECISION)
    )

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        """Return whether the network was created with `flag`."""
        return bool(self._flags >> int(member_of(NetworkDefinitionCreationFlag, flag, self.dialect)) & 1)

    @property
    def builder(self) -> Any:
        """The builder that made it; None where none did."""
        return self._builder

    @property
    def logger(self) -> ILogger:
        """Return the logger of the network's messages."""
        return self._logger

    # Inputs and outputs.

    def add_input(self, name: str, dtype: DataType, shape: Sizes) -> ITensor | None:
        """Add an input of `shape`; -1 is a size that a run fixes.

        Returns:
            None, with an error in the log, where the name is taken.
        """
        if self._names.get(name) is not None:
            return self.complain(f"INetworkDefinition::addInput: there is a tensor '{name}' already", None)
        tensor = ITensor(self, name, dtype=DataType(dtype), shape=plain(tuple(shape)))
        self._names[name] = tensor
        self._inputs.append(tensor)
        self.touch()
        return tensor

    def mark_output(self, tensor: ITensor) -> None:
        """Mark `tensor` as an output of the engine.

        Args:
            tensor: Of this network.
        Raises:
            QuantValueError: It is no ITensor.
        """
        if not isinstance(tensor, ITensor):
            raise QuantValueError(
                "mark_output", f"a {type(tensor).__name__}", "an ITensor", "pass layer.get_output(0)"
            )
        if tensor not in self._outputs:
            self._outputs.append(tensor)
            self.touch()

    def unmark_output(self, tensor: ITensor) -> None:
        """Unmark `tensor` as an output."""
        self._outputs = [t for t in self._outputs if t is not tensor]
        self.touch()

    def mark_output_for_shapes(self, tensor: ITensor) -> bool:
        """Mark `tensor`, which holds sizes, as an output of the engine."""
        self.mark_output(tensor)
        return True

    def unmark_output_for_shapes(self, tensor: ITensor) -> bool:
        """Unmark `tensor`, which holds sizes, as an output."""
        self.unmark_output(tensor)
        return True

    def mark_debug(self, tensor: ITensor) -> bool:
        """Mark `tensor` as visible to a debug listener in every run."""
        self._debugged[tensor] = True
        return True

    def unmark_debug(self, tensor: ITensor) -> bool:
        """Unmark `tensor` as visible to a debug listener."""
        return self._debugged.pop(tensor, False)

    def is_debug_tensor(self, tensor: ITensor) -> bool:
        """Return whether `mark_debug` marked it."""
        return tensor in self._debugged

    def mark_unfused_tensors_as_debug_tensors(self) -> bool:
        """Mark every tensor that fusion leaves in the engine; a context shows them where it is told to."""
        self._shows_unfused = True
        return True

    def unmark_unfused_tensors_as_debug_tensors(self) -> bool:
        """Take `mark_unfused_tensors_as_debug_tensors` back."""
        self._shows_unfused = False
        return True

    # Serialization.

    def serialize(self) -> IHostMemory:
        """Serialize the network, as an ONNX model that ``OnnxParser.parse`` reads.

        Raises:
            QuantValueError: A layer is not as TensorRT takes it, so that no file can say it.
        """
        if errors := self.errors():
            raise QuantValueError(
                "INetworkDefinition.serialize", errors[0], "a network that can be built", "correct the layer"
            )
        return IHostMemory(self.compose().model().SerializeToString())

    # Weights by name: constants have the names of their tensors, as those of parsed files do.

    def set_weights_name(self, weights: Any, name: str) -> bool:
        """Name the weights of a constant layer, to refit them by that name.

        Returns:
            False, with an error in the log, where no constant layer holds the weights, or the name is taken.
        """
        array = array_of(weights)
        layer = None if array is None else self._constant_with(array)
        if layer is None:
            return self.complain(f"setWeightsName: no constant layer holds the weights for '{name}'", False)
        tensor = layer._outputs[0]
        if name != tensor.name and name in self._names:
            return self.complain(f"setWeightsName: there is a tensor '{name}' already", False)
        tensor.name = name
        return True

    def _constant_with(self, array: Any) -> ILayer | None:
        """Find the constant layer whose weights are `array`, or lie in the same memory."""
        for layer in self._layers:
            if layer._kind is kinds.IConstantLayer:
                weights = array_of(layer.weights)  # type: ignore[attr-defined]
                if weights is not None and (weights is array or np.shares_memory(weights, array)):
                    return layer
        return None

    def mark_weights_refittable(self, name: str) -> bool:
        """Allow `Refitter` to change the weights called `name`, under ``BuilderFlag.REFIT_INDIVIDUAL``."""
        self._refittable.add(name)
        return True

    def unmark_weights_refittable(self, name: str) -> bool:
        """Take `mark_weights_refittable` back."""
        self._refittable.discard(name)
        return True

    def are_weights_marked_refittable(self, name: str) -> bool:
        """Return whether `mark_weights_refittable` marked them."""
        return name in self._refittable

    def remove_tensor(self, tensor: ITensor) -> None:
        """Remove an input without readers from the network."""
        self._inputs = [t for t in self._inputs if t is not tensor]
        self.touch()

    # Layers. Most calls are rows of `table`; parameters that are no arguments there are attributes.

    def add_loop(self) -> ILoop:
        """Add a loop: give it recurrences, a trip limit and outputs."""
        return ILoop(self)

    def add_if_conditional(self) -> IIfConditional:
        """Add a conditional: give it a condition and outputs."""
        return IIfConditional(self)

    def add_attention(
        self, query: ITensor, key: ITensor, value: ITensor, norm_op: AttentionNormalizationOp, causal: bool
    ) -> IAttention:
        """Add an attention: query [batch, heads, s_q, h], key and value [batch, heads or fewer, s_kv, h]."""
        kind = CausalMaskKind.UPPER_LEFT if causal else CausalMaskKind.NONE
        return self.add_attention_v2(query, key, value, norm_op, kind)

    def add_attention_v2(
        self, query: ITensor, key: ITensor, value: ITensor, norm_op: AttentionNormalizationOp,
        causal_kind: CausalMaskKind,
    ) -> IAttention:  # fmt: skip
        """Add an attention with a kind of causal mask; packed sequences are its `query_form`."""
        start = self.add_layer(kinds.IAttentionInputLayer, (query, key, value))
        end = self.add_layer(kinds.IAttentionOutputLayer, (start.get_output(0),))
        attention = IAttention(start, end)
        attention.norm_op = AttentionNormalizationOp(norm_op)
        attention.causal_kind = CausalMaskKind(causal_kind)
        return attention

    def add_moe(
        self, hidden_states: ITensor, selected_experts_for_tokens: ITensor,
        scores_for_selected_experts: ITensor,
    ) -> kinds.IMoELayer:  # fmt: skip
        """Add a mixture of experts; give it weights with ``set_gated_weights``."""
        tensors = (hidden_states, selected_experts_for_tokens, scores_for_selected_experts)
        return self.add_layer(kinds.IMoELayer, tensors)

    def add_dist_collective(self, *_: Any, **__: Any) -> None:
        """Log an error and return None: there is one device."""
        self.complain("INetworkDefinition::addDistCollective: there is one device, the CPU", None)

    def add_plugin(
        self, inputs: Any, operator: Any = None, aot: bool | None = None, **attributes: Any
    ) -> Any:
        """Add a layer of an operator that `plugin` registered under "domain::Name".

        Or of a quick plugin: ``add_plugin(tensorrt.plugin.op.domain.Name(x, attribute=1))``.

        Raises:
            UnsupportedError: `aot` is set: kernels that are compiled before are code for a GPU.
        """
        if operator is None or isinstance(operator, bool):
            if aot or operator:
                raise UnsupportedError(
                    "add_plugin", "aot=True", "a function of tensorrt.plugin.impl",
                    "leave it out: a kernel of aot_impl is code for a GPU",
                )  # fmt: skip
            return self.add_plugin_v3(inputs.inputs, (), inputs.plugin)
        return self.add_layer(IPluginV2Layer, tuple(inputs), operator=operator, attributes=attributes)

    def add_plugin_v2(self, inputs: Sequence[ITensor], plugin: Any) -> IPluginV2Layer:
        """Add a layer of a plugin in Python (an `IPluginV2DynamicExt`)."""
        operator = adopt(plugin, [t.dtype for t in inputs])
        return self.add_layer(IPluginV2Layer, tuple(inputs), operator=operator, _plugin=plugin)

    def add_plugin_v3(
        self, inputs: Sequence[ITensor], shape_inputs: Sequence[ITensor], plugin: Any
    ) -> IPluginV3Layer:
        """Add a layer of a plugin in Python (an `IPluginV3`).

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
        """Add a node of an ONNX file (for parsers)."""
        self._domains.update(domains)
        return self.add_layer(kinds.IOnnxLayer, tuple(inputs), node=node)

    def add_layer(self, kind: type[Layer], inputs: tuple[ITensor | None, ...], **parameters: Any) -> Layer:
        """Add a layer of `kind`, as every ``add_*`` call does.

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

    def name_for(self, title: str) -> str:
        """Return TensorRT's name for a layer without a name."""
        return f"(Unnamed Layer* {len(self._layers)}) [{title}]"

    def free_name(self, base_name: str) -> str:
        """Return a tensor name that is not in use, and reserve it."""
        name, count = base_name, 0
        while name in self._names:
            count += 1
            name = f"{base_name}_{count}"
        self._names[name] = None
        return name

    def rename(self, tensor: ITensor, name: str) -> None:
        """Give `tensor` another name.

        Args:
            tensor: Of this network.
            name: Of no other tensor.
        Raises:
            QuantValueError: Another tensor has the name.
        """
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

    # Messages.

    def complain(self, message: str, result: Result) -> Result:
        """Log an error, and return `result`."""
        self._report(message)
        return result

    def warn(self, message: str) -> None:
        """Log a warning."""
        self._logger.log(LogSeverity.WARNING, message)


install(INetworkDefinition)
hide_removed(INetworkDefinition)
