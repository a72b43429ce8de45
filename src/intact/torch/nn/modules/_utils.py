"""Mix-ins that give a module its quantizers, for the classes of this package and for a user's own.

Two public mix-ins, `QuantInputMixin` and `QuantMixin`, only hold quantizers: the user writes `__init__` and
`forward`; `QuantizedModule` is what both have. `QuantizedInput` and `QuantizedLayer` add a constructor that
takes the float module's arguments and descriptors: a family of nearly equal classes is
``class QuantX(QuantizedInput, nn.X)``, one line each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import QuantValueError, UnsupportedError
from intact.torch.exact import exact_functions
from intact.torch.exact.grid_tensor import GridTensor
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.tensor_quant import QUANT_DESC_8BIT_PER_TENSOR, QuantDescriptor

__all__ = ["QuantInputMixin", "QuantMixin", "pop_quant_desc_in_kwargs"]


def engine_functions(layer: nn.Module) -> AbstractContextManager[None]:
    """Return `exact_functions` where `layer` quantizes; with disabled quantizers it is the float layer."""
    if layer.training:  # a step does not look for quantizers
        return nullcontext()
    quantizers = (module for module in layer.modules() if isinstance(module, TensorQuantizer))
    active = any(not quantizer._disabled and quantizer._if_quant for quantizer in quantizers)
    return exact_functions(layer) if active else nullcontext()


class QuantizedModule:
    """Base of every quantized module: ``_input_quantizer``, and a default descriptor of its class.

    A class that inherits a default shares it until it sets its own: set the default of a class, and its
    siblings keep theirs.
    """

    default_quant_desc_input: QuantDescriptor = QUANT_DESC_8BIT_PER_TENSOR
    _input_quantizer: TensorQuantizer

    @classmethod
    def set_default_quant_desc_input(cls, value: QuantDescriptor) -> None:
        """Quantize the inputs of modules of this class, built from now on, as `value` says."""
        cls.default_quant_desc_input = _check_descriptor(
            value, f"{cls.__name__}.set_default_quant_desc_input"
        )

    @property
    def input_quantizer(self) -> TensorQuantizer:
        """The quantizer of the input."""
        return self._input_quantizer


class QuantInputMixin(QuantizedModule):
    """For a module that quantizes its input alone. Not a base of `QuantMixin`: scripts ask which of both."""

    def init_quantizer(self, quant_desc_input: QuantDescriptor) -> None:
        """Create ``_input_quantizer``; call it after `__init__` of the float module.

        Raises:
            QuantValueError: (a ValueError) The descriptor is none, or not one of fake quantization.
        """
        self._input_quantizer = _quantizer(self, quant_desc_input)


class QuantMixin(QuantizedModule):
    """For a module that quantizes its input and its weight: ``_weight_quantizer`` besides."""

    default_quant_desc_weight: QuantDescriptor = QUANT_DESC_8BIT_PER_TENSOR
    _weight_quantizer: TensorQuantizer
    _input_quantizers: nn.ModuleList
    _weight_quantizers: nn.ModuleList

    @classmethod
    def set_default_quant_desc_weight(cls, value: QuantDescriptor) -> None:
        """Quantize the weights of modules of this class, built from now on, as `value` says."""
        cls.default_quant_desc_weight = _check_descriptor(
            value, f"{cls.__name__}.set_default_quant_desc_weight"
        )

    def init_quantizer(
        self,
        quant_desc_input: QuantDescriptor,
        quant_desc_weight: QuantDescriptor,
        num_layers: int | None = None,
    ) -> None:
        """Create both quantizers; with `num_layers` that many of each, in ``_input_quantizers`` and its like.

        Raises:
            QuantValueError: (a ValueError) A descriptor is none, or not one of fake quantization.
        """
        if num_layers is None:
            self._input_quantizer = _quantizer(self, quant_desc_input)
            self._weight_quantizer = _quantizer(self, quant_desc_weight)
            return
        for name, desc in (
            ("_input_quantizers", quant_desc_input),
            ("_weight_quantizers", quant_desc_weight),
        ):
            setattr(self, name, nn.ModuleList(_quantizer(self, desc) for _ in range(num_layers)))

    @property
    def weight_quantizer(self) -> TensorQuantizer:
        """The quantizer of the weight."""
        return self._weight_quantizer

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load a bias into a layer without one: bias correction may have given it to the layer that was
        saved."""
        layer: Any = self
        bias = state_dict.get(f"{prefix}bias")
        if bias is not None and layer._parameters.get("bias", bias) is None:
            layer.bias = nn.Parameter(
                torch.zeros_like(bias, dtype=layer.weight.dtype, device=layer.weight.device)
            )
        super()._load_from_state_dict(state_dict, prefix, *args)  # type: ignore[misc]

    def quantized_weights(self) -> dict[str, Tensor]:
        """Return fake-quantized values of the weights, by name of the parameter."""
        return {"weight": self._weight_quantizer(self.weight)}  # type: ignore[attr-defined]


def pop_quant_desc_in_kwargs(
    quant_cls: type[QuantizedModule], input_only: bool = False, **kwargs: Any
) -> QuantDescriptor | tuple[QuantDescriptor, QuantDescriptor]:
    """Pop the descriptors from `kwargs`, or return the defaults of `quant_cls`.

    Args:
        quant_cls: The quantized class.
        input_only: Only `quant_desc_input` may be given and is returned.
        **kwargs: `quant_desc_input` and `quant_desc_weight`.
    Returns:
        The descriptor of the input; without `input_only` the pair of input and weight.
    Raises:
        UnsupportedError: (a TypeError) Another key is left.
    """
    descriptors: Any = kwargs.pop("quant_desc_input", quant_cls.default_quant_desc_input)
    if not input_only:
        default = quant_cls.default_quant_desc_weight  # type: ignore[attr-defined]
        descriptors = descriptors, kwargs.pop("quant_desc_weight", default)
    if kwargs:
        key_names = "quant_desc_input" if input_only else "quant_desc_input, quant_desc_weight"
        raise UnsupportedError(
            quant_cls.__name__,
            f"Unused keys: {sorted(kwargs)}",
            f"the float module's arguments, {key_names}",
            "correct the spelling, or drop them",
        )
    return descriptors  # type: ignore[no-any-return]


@functools.cache
def _float_parameters(cls: type, mixin: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of the float class's `__init__`, ``self`` first; empty where there is none."""
    behind = cls.__mro__[cls.__mro__.index(mixin) + 1 :]
    for base in behind:
        parameters = inspect.signature(base.__init__).parameters  # type: ignore[misc]
        if issubclass(base, nn.Module) and all(p.kind != p.VAR_KEYWORD for p in parameters.values()):
            return parameters
    return {}


def _copy_function(init: Callable[..., None]) -> Callable[..., None]:
    """Copy the function `init`."""

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)

    return __init__


_NOT_SHOWN = ("device", "dtype", "mode")
"""Parameters that a module keeps in no attribute of that name, and RNNBase's own: among ``**kwargs``."""


class _FloatSignature:
    """Gives ``QuantX.__init__`` the signature of ``nn.X``: frameworks read it to build one from the other."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        mixin: type = next(base for base in cls.__mro__ if _FloatSignature in base.__bases__)
        parameters = _float_parameters(cls, mixin)  # type: ignore[arg-type]
        if parameters and "__init__" not in vars(cls):
            shown = [parameter for name, parameter in parameters.items() if name not in _NOT_SHOWN]
            rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
            cls.__init__ = _copy_function(mixin.__init__)  # type: ignore[misc, method-assign]
            cls.__init__.__signature__ = inspect.Signature([*shown, rest])  # type: ignore[attr-defined]


class QuantizedInput(_FloatSignature, QuantInputMixin):
    """``class QuantX(QuantizedInput, nn.X)``: X's arguments and `quant_desc_input`; quantizes the input."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        float_kwargs = _pop_float_kwargs(type(self), QuantizedInput, kwargs)
        desc_input = pop_quant_desc_in_kwargs(type(self), input_only=True, **kwargs)
        super().__init__(*args, **float_kwargs)
        self.init_quantizer(desc_input)  # type: ignore[arg-type]

    def forward(self, input: Tensor) -> Tensor:
        quantized = self._input_quantizer(input)
        with nullcontext() if isinstance(quantized, GridTensor) else engine_functions(self):  # type: ignore[arg-type]
            return super().forward(quantized)  # type: ignore[misc, no-any-return]


class QuantizedLayer(_FloatSignature, QuantMixin):
    """``class QuantX(QuantizedLayer, nn.X)``: X's arguments and both descriptors; QuantX has a `forward`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        float_kwargs = _pop_float_kwargs(type(self), QuantizedLayer, kwargs)
        desc_input, desc_weight = pop_quant_desc_in_kwargs(type(self), **kwargs)  # type: ignore[misc]
        super().__init__(*args, **float_kwargs)
        self.init_quantizer(desc_input, desc_weight)


def _pop_float_kwargs(cls: type, mixin: type, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Pop from `kwargs` the arguments of the float class behind `mixin` in the bases of `cls`."""
    accepted = _float_parameters(cls, mixin)
    return {key: kwargs.pop(key) for key in list(kwargs) if key in accepted}


def _quantizer(owner: object, desc: QuantDescriptor) -> TensorQuantizer:
    if not _check_descriptor(desc, type(owner).__name__).fake_quant:
        raise QuantValueError(
            type(owner).__name__,
            f"{desc} in a quantized module. Only fake quantization is supported!",
            "a descriptor with fake_quant=True",
            "use a TensorQuantizer of its own where you need the codes",
        )
    return TensorQuantizer(desc)


def _check_descriptor(value: object, where: str) -> QuantDescriptor:
    if not isinstance(value, QuantDescriptor):
        raise QuantValueError(
            where, f"{value!r} is not an instance of QuantDescriptor", "a QuantDescriptor", "build one"
        )
    return value
