"""Operators that the installed ONNX Runtime has: tests run with older ones, too."""

from __future__ import annotations

from functools import cache

import onnxruntime.capi.onnxruntime_pybind11_state as runtime
import pytest


def need_runtime_operator(op_type: str) -> None:
    """Skip a test that needs an operator of ONNX Runtime which the installed version does not have."""
    if op_type not in _contrib_operators():
        pytest.skip(f"this ONNX Runtime has no {op_type}")


@cache
def _contrib_operators() -> frozenset[str]:
    schemas = runtime.get_all_operator_schema()
    return frozenset(schema.name for schema in schemas if schema.domain == "com.microsoft")
