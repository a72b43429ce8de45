"""ILayer: what every layer of a network has, and how it becomes ONNX nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import DTYPES, Composer
from intact.trt.enums import DataType, LayerType
from intact.trt.tensors import ITensor, OwningNetwork

CONVERTED = (DataType.INT32, DataType.INT64, DataType.BOOL, DataType.UINT8)


class ILayer:
    """One layer; made by the ``add_*`` calls of a network.

    Its parameters are plain attributes: setting one is enough, the network is written when it is built.

    Attributes:
        metadata: Free text, kept.
    """

    TYPE: ClassVar[LayerType] = LayerType.OTHER
    OUTPUTS: ClassVar[int] = 1

    def __init__(self, network: OwningNetwork, inputs: tuple[ITensor | None, ...], **parameters: Any) -> None:
        self._ready = False
        self.network, self._inputs = network, list(inputs)
        self._name = network.unnamed(self._title())
        self._precision: DataType | None = None
        self._types: dict[int, DataType] = {}
        self.metadata = ""
        for key, value in parameters.items():
            setattr(self, key, value)
        self._outputs = [
            ITensor(network, network.unused(f"{self._name}_output{i or ''}"), producer=self)
            for i in range(self._count())
        ]
        self._ready = True

    def __setattr__(self, key: str, value: Any) -> None:
        super().__setattr__(key, value)
        if self.__dict__.get("_ready"):
            self.network.touch()

    def _title(self) -> str:
        """How TensorRT calls an unnamed layer of this kind: "Convolution"."""
        return "".join(part.capitalize() for part in self.TYPE.name.split("_"))

    def _count(self) -> int:
        return self.OUTPUTS

    @property
    def type(self) -> LayerType:
        """What kind of layer it is."""
        return self.TYPE

    @property
    def name(self) -> str:
        """Its name, which reports and errors show."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def num_inputs(self) -> int:
        """Number of its inputs."""
        return len(self._inputs)

    @property
    def num_outputs(self) -> int:
        """Number of its outputs."""
        return len(self._outputs)

    def get_input(self, index: int) -> ITensor | None:
        """Input `index`; None where there is none."""
        return self._inputs[index] if 0 <= index < len(self._inputs) else None

    def get_output(self, index: int) -> ITensor | None:
        """Output `index`; None where there is none."""
        return self._outputs[index] if 0 <= index < len(self._outputs) else None

    def set_input(self, index: int, tensor: ITensor) -> None:
        """Wire input `index` to `tensor`; inputs in between stay open."""
        if not isinstance(tensor, ITensor):
            raise QuantValueError(
                f"layer '{self.name}', input {index}", f"a {type(tensor).__name__}", "an ITensor",
                "pass a layer's get_output(...) or what add_input returned",
            )  # fmt: skip
        if index >= len(self._inputs):
            self._inputs.extend([None] * (index + 1 - len(self._inputs)))
        self._inputs[index] = tensor
        self.network.touch()

    @property
    def precision(self) -> DataType:
        """The precision that the layer is pinned to; float32 where it is not."""
        return self._precision if self._precision is not None else DataType.FLOAT

    @precision.setter
    def precision(self, precision: DataType) -> None:
        self._precision = DataType(precision)

    @property
    def precision_is_set(self) -> bool:
        """Whether `precision` was set."""
        return self._precision is not None

    def reset_precision(self) -> None:
        """The builder chooses again."""
        self._precision = None

    def set_output_type(self, index: int, dtype: DataType) -> None:
        """Fix the type of output `index`."""
        self._types = {**self._types, index: DataType(dtype)}

    def get_output_type(self, index: int) -> DataType:
        """The type of output `index`."""
        output = self.get_output(index)
        return self._types.get(index, output.dtype if output is not None else DataType.FLOAT)

    def output_type_is_set(self, index: int) -> bool:
        """Whether `set_output_type` fixed output `index`."""
        return index in self._types

    def reset_output_type(self, index: int) -> None:
        """The type of output `index` follows from the layer again."""
        self._types = {i: t for i, t in self._types.items() if i != index}

    def check(self) -> list[str]:
        """What TensorRT would refuse about it when it builds: its own words, without the layer's name."""
        return []

    def emit(self, c: Composer) -> None:
        """Write the layer into `c`, inputs and outputs under the tensors' names."""
        inputs = [t.name if t is not None else "" for t in self._inputs]
        wanted = [self._cast_to(i) for i in range(len(self._outputs))]
        made = [
            t.name if to is None else c.fresh(f"{t.name}.uncast")
            for t, to in zip(self._outputs, wanted, strict=True)
        ]
        self._emit(c, inputs, made)
        for tensor, name, to in zip(self._outputs, made, wanted, strict=True):
            if to is not None:
                c.node("Cast", [name], [tensor.name], name=f"{self.name}.cast", to=to)

    def _cast_to(self, index: int) -> int | None:
        """The ONNX type that output `index` is cast to; None where nothing is.

        A type of floats or codes that `set_output_type` asks for is a wish about precision: see `precision`.
        """
        asked = self._types.get(index)
        return DTYPES[asked.numpy.name] if asked in CONVERTED else None

    def _emit(self, c: Composer, x: list[str], y: list[str]) -> None:
        raise NotImplementedError(f"{type(self).__name__} writes no nodes")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def axes_of(mask: int, rank: int) -> tuple[int, ...]:
    """The axes whose bits are set in `mask`, as TensorRT writes sets of axes."""
    return tuple(axis for axis in range(max(rank, int(mask).bit_length())) if mask >> axis & 1)


def int64(values: Sequence[int]) -> NDArray[np.int64]:
    """Sizes, axes or pads as ONNX takes them."""
    return np.asarray(list(values), np.int64)
