"""Tells from a script's code which TensorRT it was written for, before the first rule depends on it.

TensorRT 10 removed members such as ``get_binding_shape``. A script that calls them, and has no second way for
newer versions, can only run with TensorRT 8. A script that uses what TensorRT 11 added, or builds with types
that TensorRT 10 takes under flags alone, can only run with TensorRT 11. This module reads the code on the
call stack, and the functions and classes of the same modules that this code names: a script may build in one
function and run in another.
"""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any

_TENSORS = frozenset({"num_io_tensors", "get_tensor_name"})
_SHAPES = frozenset({"get_tensor_shape", "get_tensor_profile_shape"})
_RUNS = frozenset({"execute_async_v3", "execute_v2"})
SUCCESSORS: dict[str, frozenset[str]] = {
    "STRICT_TYPES": frozenset({"OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS"}),
    "EXPLICIT_PRECISION": frozenset({"STRONGLY_TYPED"}),
    "add_fully_connected": frozenset({"add_matrix_multiply"}), "add_rnn_v2": frozenset({"add_loop"}),
    "binding_is_input": frozenset({"get_tensor_mode"}),
    "build_cuda_engine": frozenset({"build_serialized_network"}),
    "execute_async_v2": _RUNS, "get_binding_dtype": frozenset({"get_tensor_dtype"}),
    "get_binding_format": frozenset({"get_tensor_format"}), "get_binding_index": _TENSORS,
    "get_binding_name": _TENSORS, "get_binding_shape": _SHAPES, "get_profile_shape": _SHAPES,
    "get_profile_shape_input": frozenset({"get_tensor_profile_values"}),
    "is_execution_binding": frozenset({"get_tensor_location", "is_shape_inference_io"}),
    "is_shape_binding": frozenset({"get_tensor_location", "is_shape_inference_io"}),
    "max_workspace_size": frozenset({"set_memory_pool_limit"}), "num_bindings": _TENSORS,
    "set_binding_shape": frozenset({"set_input_shape"}),
}  # fmt: skip
"""Members that TensorRT 10 removed, and what replaced each; without names that other libraries have."""
OLD_FLAG = "EXPLICIT_BATCH"
"""A flag that TensorRT 8 needs and 10 ignores: it counts where nothing else speaks for one of them."""
NEWER = _TENSORS | _SHAPES | {
    "execute_async_v3", "get_tensor_dtype", "get_tensor_mode", "set_input_shape", "set_memory_pool_limit",
    "set_tensor_address", "STRONGLY_TYPED",
}  # fmt: skip
ADDED_IN_11 = frozenset({
    "AttentionIOForm", "CausalMaskKind", "add_attention_v2", "all_build_routes", "build_route", "causal_kind",
    "key_value_form", "key_value_lengths", "query_form", "query_lengths", "update_form", "update_lengths",
})  # fmt: skip
"""Names that TensorRT 11 has and 10.16 does not."""
UNFLAGGED_TYPES = frozenset({"bfloat16", "fp4", "fp8", "int4", "e8m0", "BF16", "FP4", "FP8", "INT4", "E8M0"})
"""Types that TensorRT 10 builds with a precision flag, or in a network that is strongly typed, alone."""
FLAGS = frozenset({"BuilderFlag", "STRONGLY_TYPED"})
MEMBERS = frozenset({OLD_FLAG}).union(
    NEWER, SUCCESSORS, *SUCCESSORS.values(), ADDED_IN_11, UNFLAGGED_TYPES
)  # fmt: skip
VERSION_NAMES = re.compile(r"version|trt_?\d", re.IGNORECASE)
"""Names in code that asks which TensorRT it runs with."""
ENTRIES = frozenset({"tensorrt", "trt", "Builder", "Runtime"})
"""Names in code that has to do with TensorRT at all; test runners and the like say nothing of a script."""
MEMBER_PROBES = frozenset({"hasattr", "getattr", "AttributeError"})
"""Names in code that asks whether a member exists."""
MOST_CODES = 2000
"""Functions of one module that are read at most."""
ATTRIBUTE_OPCODES = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
NAMING_OPCODES = (*ATTRIBUTE_OPCODES, "IMPORT_FROM")


def caller_frame() -> FrameType | None:
    """Return the innermost frame that is not INTact's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return frame


def is_internal(frame: FrameType) -> bool:
    """Return whether a frame runs INTact's own code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "intact"


def calls_removed_members(frame: FrameType | None) -> bool:
    """Return whether the code of a stack uses removed members, and has no other way for TensorRT 10."""
    names = _names_on_stack(frame)
    if OLD_FLAG in names and names.isdisjoint(NEWER) and not _asks(names):
        return True
    return not names.isdisjoint(SUCCESSORS) and not _has_newer_way(names)


def needs_version_11(frame: FrameType | None) -> bool:
    """Return whether the code of a stack can only run with TensorRT 11, and does not ask which one it has."""
    names = _names_on_stack(frame)
    if _asks(names):
        return False
    builds = "create_network" in names and names.isdisjoint(FLAGS | {OLD_FLAG})
    return not names.isdisjoint(ADDED_IN_11) or (builds and not names.isdisjoint(UNFLAGGED_TYPES))


def has_newer_way(frame: FrameType | None) -> bool:
    """Return whether the code of a stack checks TensorRT's version, and has a branch for TensorRT 10."""
    return _has_newer_way(_names_on_stack(frame))


def _has_newer_way(names: set[str]) -> bool:
    return _asks(names) and all(names & SUCCESSORS[name] for name in names & SUCCESSORS.keys())


def _asks(names: set[str]) -> bool:
    """Return whether code checks TensorRT's version or members."""
    return not names.isdisjoint(MEMBER_PROBES) or any(map(VERSION_NAMES.search, names))


def is_probe(frame: FrameType, sets: bool) -> bool:
    """Return whether a frame that reads or sets a member wants to know whether it exists."""
    if "AttributeError" in frame.f_code.co_names:
        return True
    here = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
    return not sets and here is not None and here.opname not in ATTRIBUTE_OPCODES  # hasattr or getattr


def _names_on_stack(frame: FrameType | None) -> set[str]:
    """Collect the names that the code of a stack reads; of TensorRT's members only those used as
    attributes.
    """
    names: set[str] = set()
    seen: set[CodeType] = set()
    while frame is not None:
        if not is_internal(frame):
            names_of_frame = set[str]().union(*map(_names_in, _reachable(frame, seen)))
            if not names_of_frame.isdisjoint(MEMBERS | ENTRIES):
                names |= names_of_frame
        frame = frame.f_back
    return names


def _reachable(frame: FrameType, seen: set[CodeType]) -> Iterator[CodeType]:
    """Yield the code of a frame, and that of functions and classes of its module that it names, once each."""
    names = frame.f_globals
    stack = [frame.f_code]
    own_class = names.get(getattr(frame.f_code, "co_qualname", "").partition(".")[0])
    stack += _codes_of(own_class, names)
    while stack and len(seen) < MOST_CODES:
        code = stack.pop()
        if code in seen:
            continue
        seen.add(code)
        yield code
        stack += [c for c in code.co_consts if isinstance(c, CodeType)]
        for name in code.co_names:
            stack += _codes_of(names.get(name), names)


def _codes_of(value: Any, module: dict[str, Any]) -> list[CodeType]:
    """Return the code of a function of `module`, or of a class's methods; none of anything else."""
    if isinstance(value, FunctionType):
        return [value.__code__] if value.__globals__ is module else []
    if isinstance(value, type) and value.__module__ == module.get("__name__"):
        return [f.__code__ for f in vars(value).values() if isinstance(f, FunctionType)]
    return []


@lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> frozenset[str]:
    """Return the names that code reads, but for those of TensorRT's members that are no attributes there."""
    members = MEMBERS.intersection(code.co_names)
    if not members:
        return frozenset(code.co_names)
    used = {i.argval for i in dis.get_instructions(code) if i.opname in NAMING_OPCODES}
    return frozenset(code.co_names) - (members - used)
