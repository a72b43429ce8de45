"""Base of TensorRT's objects: ``with``, no unknown attributes, recorded errors.

An attribute that a class does not have raises, as in TensorRT: a script that misspells one must not run on.
One that has no meaning on a CPU (`WITHOUT_MEANING`) is accepted, kept, and said once in the log.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, Self

from intact.errors import IntactError
from intact.trt.base.dialects import DialectChoice
from intact.trt.base.enums import ErrorCodeTRT
from intact.trt.base.host_interfaces import ILogger, LogSeverity, define
from intact.trt.base.removed_members import RemovedMember, check_setting, visible_names

WITHOUT_MEANING: dict[str, str] = {
    "Builder.max_workspace_size": "the engine takes what its arena needs",
    "Builder.fp16_mode": "float16 is accepted and computed in float32",
    "Builder.strict_type_constraints": "use OBEY_PRECISION_CONSTRAINTS",
    "Builder.gpu_allocator": "memory is the host's",
    "Builder.max_threads": "building takes one thread",
    "IBuilderConfig.max_workspace_size": "the engine takes what its arena needs",
    "IBuilderConfig.set_memory_pool_limit": "the engine takes what its arena needs",
    "IBuilderConfig.profiling_verbosity": "the inspector always knows every layer",
    "IBuilderConfig.builder_optimization_level": "there is one level",
    "IBuilderConfig.avg_timing_iterations": "the number of timed runs is fixed",
    "IBuilderConfig.min_timing_iterations": "the number of timed runs is fixed",
    "IBuilderConfig.max_aux_streams": "there are no streams",
    "IBuilderConfig.profile_stream": "there are no streams",
    "IBuilderConfig.default_device_type": "there is one device, the CPU",
    "IBuilderConfig.set_device_type": "there is one device, the CPU",
    "IBuilderConfig.reset_device_type": "there is one device, the CPU",
    "IBuilderConfig.DLA_core": "there is no DLA",
    "IBuilderConfig.engine_capability": "there is one kind of engine",
    "IBuilderConfig.hardware_compatibility_level": "plans run on every CPU that INTact runs on",
    "IBuilderConfig.runtime_platform": "plans run on every CPU that INTact runs on",
    "IBuilderConfig.tiling_optimization_level": "tiles are chosen by the kernels",
    "IBuilderConfig.l2_limit_for_tiling": "tiles are chosen by the kernels",
    "IBuilderConfig.num_devices": "there is one device, the CPU",
    "IBuilderConfig.max_num_tactics": "kernels are chosen without trials of tactics",
    "IBuilderConfig.set_tactic_sources": "kernels are INTact's own",
    "IBuilderConfig.set_preview_feature": "there are no previews",
    "IBuilderConfig.set_quantization_flag": "calibration always sees tensors as the network has them",
    "IBuilderConfig.algorithm_selector": "kernels are not chosen by algorithm selectors",
    "IBuilderConfig.build_route": "kernels are chosen without routes",
    "IBuilderConfig.remote_auto_tuning_config": "the builder measures on this machine",
    "IBuilderConfig.plugins_to_serialize": "plugins in Python are made again by their creators",
    "ILayer.metadata": "it is kept for its reader",
    "ILayer.set_output_type": "types of floats and of codes are those of the layer's precision",
    "ILayer.num_ranks": "there is one device, the CPU",
    "INormalizationLayer.compute_precision": "normalization computes in float32",
    "ITensor.location": "every tensor is in host memory",
    "ITensor.allowed_formats": "tensors are dense, in the order of their axes",
    "INetworkDefinition.name": "it is kept for its reader",
    "Runtime.DLA_core": "there is no DLA",
    "Runtime.gpu_allocator": "memory is the host's",
    "Runtime.temporary_directory": "plans are read without libraries",
    "Runtime.tempfile_control_flags": "plans are read without libraries",
    "Runtime.engine_host_code_allowed": "plans hold no code",
    "ICudaEngine.weight_streaming_budget_v2": "weights are in host memory",
    "ICudaEngine.weight_streaming_budget": "weights are in host memory",
    "IExecutionContext.debug_sync": "every call returns when it is done",
    "IExecutionContext.enqueue_emits_profile": "every run reports at once",
    "IExecutionContext.persistent_cache_limit": "there is no persistent cache",
    "IExecutionContext.device_memory": "the engine has memory of its own",
    "IExecutionContext.set_device_memory": "the engine has memory of its own",
    "IExecutionContext.nvtx_verbosity": "there is no NVTX",
    "IExecutionContext.temporary_allocator": "the engine has memory of its own",
    "IExecutionContext.set_aux_streams": "there are no streams",
    "IExecutionContext.set_input_consumed_event": "a call returns when the inputs are read",
    "OnnxParser.set_flag": "the parser has one way",
    "ISerializationConfig.flags": "a plan has one form",
    "IRuntimeConfig.set_execution_context_allocation_strategy": "the engine has memory of its own",
    "EngineInspector.error_recorder": "an inspector meets no errors",
    "EngineInspector.execution_context": "layers are the same for every context",
    "IPluginRegistry.parent_search_enabled": "there is one registry",
    "Refitter.max_threads": "refitting takes one thread",
    "Refitter.weights_validation": "weights are always checked",
    "ILoop.name": "it is kept for its reader",
    "IIfConditional.name": "it is kept for its reader",
    "IAttention.decomposable": "an attention is always made of its parts",
    "IAttention.metadata": "it is kept for its reader",
    "IAttention.num_ranks": "there is one device, the CPU",
    "ITopKLayer.is_strict": "the order is always strict",
}  # fmt: skip
"""By "Class.attribute" or "Class.method": why it changes nothing here."""


class MissingAttributeError(IntactError, AttributeError):
    """An attribute that the object does not have was set."""


class IErrorRecorder:
    """Error recorder interface: a subclass defines ``report_error(code, description)``."""

    MAX_DESC_LENGTH: ClassVar[int] = 127

    def report_error(self, val: ErrorCodeTRT, desc: str) -> bool:
        """Take an error."""
        raise define(self, "report_error(val, desc)")

    def num_errors(self) -> int:
        """Return how many errors were reported."""
        raise define(self, "num_errors()")

    def get_error_code(self, arg0: int) -> ErrorCodeTRT:
        """Return the code of an error."""
        raise define(self, "get_error_code(index)")

    def get_error_desc(self, arg0: int) -> str:
        """Return the message of an error."""
        raise define(self, "get_error_desc(index)")

    def has_overflowed(self) -> bool:
        """Return whether there were more errors than are kept."""
        raise define(self, "has_overflowed()")

    def clear(self) -> None:
        """Forget the errors."""
        raise define(self, "clear()")


class _Errors(Protocol):
    def report_error(self, val: Any, desc: str) -> Any: ...


class InterfaceType(type):
    """Class of TensorRT's classes: ``dir`` leaves out what TensorRT 10 removed, as ``getattr`` does."""

    def __dir__(cls) -> Iterable[str]:
        return visible_names(super().__dir__(), cls, None, sys._getframe(1))


class Interface(metaclass=InterfaceType):
    """An object of TensorRT's."""

    _logger: ILogger | None = None
    _choice: DialectChoice | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __dir__(self) -> Iterable[str]:
        names = visible_names(super().__dir__(), type(self), self, sys._getframe(1))
        return [name for name in names if not name.startswith("_") or name.startswith("__")]

    def __setattr__(self, key: str, value: Any) -> None:
        if not key.startswith("_"):
            kind = type(self)
            if not _settable(kind, key):
                raise _missing(kind, key)
            check_setting(self, key)
            self._note(key)
        object.__setattr__(self, key, value)

    def _note(self, key: str) -> None:
        """Log once per logger that setting `key` changes nothing here, where that is so."""
        why = without_meaning(type(self), key)
        if why is not None and self._logger is not None:
            noted_names: set[str] = self._logger.__dict__.setdefault("_noted", set())
            name = f"{type(self).__name__}.{key}"
            if name not in noted_names:
                noted_names.add(name)
                self._logger.log(LogSeverity.INFO, f"{name} is accepted and changes nothing: {why}")


class Reporting(Interface):
    """An object whose calls report errors.

    Attributes:
        error_recorder: Is told of every error, beside the log.
    """

    error_recorder: _Errors | None = None

    def _report(self, message: str, code: ErrorCodeTRT = ErrorCodeTRT.INVALID_ARGUMENT) -> None:
        """Log an error, and pass it to the recorder."""
        if self._logger is not None:
            self._logger.log(LogSeverity.ERROR, message)
        if self.error_recorder is not None:
            self.error_recorder.report_error(code, message)


def without_meaning(kind: type, key: str) -> str | None:
    """Return why setting `key` of a class changes nothing here; None where it does something."""
    return next((why for c in kind.__mro__ if (why := WITHOUT_MEANING.get(f"{c.__name__}.{key}"))), None)


def settable(kind: type) -> list[str]:
    """Return the names of the public attributes of a class that may be set, sorted."""
    names = {n for c in kind.__mro__ for n in (*vars(c), *vars(c).get("__annotations__", {}))}
    return sorted(n for n in names if not n.startswith("_") and _settable(kind, n))


def _settable(kind: type, key: str) -> bool:
    holders = [c for c in kind.__mro__ if key in vars(c)]
    if not holders:
        return any(key in vars(c).get("__annotations__", {}) for c in kind.__mro__)
    member = vars(holders[0])[key]
    if isinstance(member, RemovedMember):
        member = member.member
    if isinstance(member, property):
        return member.fset is not None
    constant = key.isupper() and key != "DLA_core"
    return not (callable(member) or isinstance(member, (staticmethod, classmethod)) or constant)


def _missing(kind: type, key: str) -> MissingAttributeError:
    allowed = settable(kind)
    near = get_close_matches(key, allowed, n=1)
    fix = f"did you mean '{near[0]}'?" if near else "take it out, or use one of those"
    return MissingAttributeError(
        f"{kind.__name__}.{key}", "a value for an attribute that it does not have",
        f"one of {', '.join(allowed)}", fix,
    )  # fmt: skip
