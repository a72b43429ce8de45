"""Members that TensorRT 10 or 11 removed: they exist for scripts of the versions before.

Scripts ask ``hasattr(engine, "num_bindings")`` to know which version they run with. `hide_removed` makes such
members answer as TensorRT's do. A script that uses one without asking is of the older TensorRT.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from inspect import getattr_static
from types import FrameType
from typing import Any

from intact.errors import IntactError
from intact.trt.base.dialects import Dialect, DialectChoice, has_members_of, next_dialect
from intact.trt.base.removed_in_11 import REMOVED_IN_11
from intact.trt.base.script_dialect import has_newer_way, is_internal, is_probe

REMOVED: dict[str, dict[str, str]] = {
    "Builder": {
        "max_batch_size": "explicit batches", "build_engine": "build_serialized_network",
        "build_cuda_engine": "build_serialized_network",
        "max_workspace_size": "config.set_memory_pool_limit", "fp16_mode": "config.set_flag",
        "int8_mode": "config.set_flag", "strict_type_constraints": "config.set_flag",
        "int8_calibrator": "config.int8_calibrator",
    },
    "IBuilderConfig": {
        "max_workspace_size": "set_memory_pool_limit", "min_timing_iterations": "avg_timing_iterations",
    },
    "INetworkDefinition": {
        "add_convolution": "add_convolution_nd", "add_deconvolution": "add_deconvolution_nd",
        "add_fully_connected": "add_matrix_multiply", "add_padding": "add_padding_nd",
        "add_pooling": "add_pooling_nd", "add_rnn_v2": "add_loop", "has_explicit_precision": "Q/DQ layers",
    },
    "IConvolutionLayer": {name: f"{name}_nd" for name in ("dilation", "kernel_size", "padding", "stride")},
    "IDeconvolutionLayer": {name: f"{name}_nd" for name in ("kernel_size", "padding", "stride")},
    "IPoolingLayer": {name: f"{name}_nd" for name in ("padding", "stride", "window_size")},
    "IPaddingLayer": {name: f"{name}_nd" for name in ("pre_padding", "post_padding")},
    "ICudaEngine": {
        "num_bindings": "num_io_tensors",
        "max_batch_size": "explicit batches", "binding_is_input": "get_tensor_mode",
        "get_binding_bytes_per_component": "get_tensor_bytes_per_component",
        "get_binding_components_per_element": "get_tensor_components_per_element",
        "get_binding_dtype": "get_tensor_dtype", "get_binding_format": "get_tensor_format",
        "get_binding_format_desc": "get_tensor_format_desc", "get_binding_index": "get_tensor_name",
        "get_binding_name": "get_tensor_name", "get_binding_shape": "get_tensor_shape",
        "get_binding_vectorized_dim": "get_tensor_vectorized_dim", "get_location": "get_tensor_location",
        "get_profile_shape": "get_tensor_profile_shape",
        "get_profile_shape_input": "get_tensor_profile_values", "is_execution_binding": "get_tensor_location",
        "is_shape_binding": "is_shape_inference_io",
    },
    "IExecutionContext": {
        "execute": "execute_v2", "execute_async": "execute_async_v3", "execute_async_v2": "execute_async_v3",
        "get_binding_shape": "get_tensor_shape", "get_shape": "get_tensor_shape",
        "get_strides": "get_tensor_strides", "set_binding_shape": "set_input_shape",
        "set_shape_input": "set_tensor_address",
    },
}  # fmt: skip
"""By class: each member that TensorRT 10.9 does not have and 8.6 or 7 had, and what took its place."""


class RemovedMemberError(IntactError, AttributeError):
    """Code asked for a name that its TensorRT does not have."""

    @classmethod
    def of(cls, holder: str, name: str, last: Dialect, successor: str) -> RemovedMemberError:
        """Build the error for `name` of `holder`, in Python's words for a class of bindings."""
        version = next_dialect(last).partition(".")[0]
        return cls(
            f"{holder} has no attribute '{name}'", f"a name that TensorRT {version} removed",
            f"what took its place: {successor}",
            f"change the script, or choose the older rules: trt.set_dialect('{last}')",
        )  # fmt: skip


class _ByDialect:
    """Descriptor in a class for a member of an older TensorRT.

    Attributes:
        owner, name: Class and member.
        last: The last dialect that has it.
        successor: What took its place.
    """

    owner: str
    name: str
    last: Dialect
    successor: str

    def check(self, instance: Any, frame: FrameType, *, sets: bool = False) -> None:
        """Answer as TensorRT does where a script asks whether the member exists.

        A script that uses the member all the same is taken for one of the last version that has it. In
        dialect 11.x that a user chose, every use is refused.

        Raises:
            RemovedMemberError: The member does not exist in the dialect of `instance`.
        """
        if is_internal(frame):
            return
        choice = _choice_of(instance, frame)
        if has_members_of(choice.dialect, self.last):
            return
        if is_probe(frame, sets) or (choice.is_explicit and choice.dialect == "11.x"):
            holder = f"type object 'tensorrt.tensorrt.{self.owner}'"
            if instance is not None:
                holder = f"'tensorrt.tensorrt.{self.owner}' object"
            raise RemovedMemberError.of(holder, self.name, self.last, self.successor)
        if not (choice.is_explicit or has_newer_way(frame)):
            choice.use_removed_member(self.last)


class RemovedProperty(property, _ByDialect):
    """A property that a later TensorRT removed."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        self.check(instance, sys._getframe(1))
        return super().__get__(instance, owner)


class RemovedMember(_ByDialect):
    """A method or a plain value that a later TensorRT removed."""

    def __init__(self, member: Any) -> None:
        self.member, self.__doc__ = member, getattr(member, "__doc__", None)

    def __get__(self, instance: Any, owner: type) -> Any:
        self.check(instance, sys._getframe(1))
        if callable(self.member):
            return self.member.__get__(instance, owner)
        return self.member if instance is None else instance.__dict__.get(self.name, self.member)

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


def visible_names(names: Iterable[str], kind: type, instance: Any, frame: FrameType) -> list[str]:
    """Return those of the names in ``dir`` that ``getattr`` gives to the code of `frame`.

    Args:
        names: Of the attributes of a class, or of an instance of it.
        kind: The class.
        instance: None: the class itself is asked.
        frame: The code that calls ``dir``.
    """
    if is_internal(frame):
        return list(names)
    dialect = _choice_of(instance, frame).dialect
    members = ((name, getattr_static(kind, name, None)) for name in names)
    return [n for n, m in members if not isinstance(m, _ByDialect) or has_members_of(dialect, m.last)]


def _choice_of(instance: Any, frame: FrameType) -> DialectChoice:
    """Return the dialect of an object, or of the code that asks a class."""
    choice: DialectChoice = getattr(instance, "_choice", None) or DialectChoice()
    return choice.look(frame)


def hide_removed(kind: type) -> None:
    """Put a stand-in in the place of each member of a class that is in `REMOVED` or `REMOVED_IN_11`."""
    owner = kind.__name__
    _hide(kind, "8.x", REMOVED.get(owner, {}))
    _hide(kind, "10.x", REMOVED_IN_11.get(owner, {}))


def _hide(kind: type, last: Dialect, members: dict[str, str]) -> None:
    for name, successor in members.items():
        member = getattr_static(kind, name)
        replacement: Any
        if isinstance(member, property):
            replacement = RemovedProperty(member.fget, member.fset, doc=member.__doc__)
        else:
            replacement = RemovedMember(member)
        replacement.owner, replacement.name = kind.__name__, name
        replacement.last, replacement.successor = last, successor
        setattr(kind, name, replacement)


def check_setting(instance: Any, name: str) -> None:
    """Refuse to set a removed member in code that catches AttributeError to probe for it."""
    member = getattr_static(type(instance), name, None)
    if not isinstance(member, _ByDialect):
        return
    frame: FrameType = sys._getframe(1)
    while frame.f_code.co_name == "__setattr__" and frame.f_back is not None:
        frame = frame.f_back
    member.check(instance, frame, sets=True)
