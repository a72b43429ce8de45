"""Helpers that write networks: constants, and the outputs that the engine makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import intact.trt as trt


def outputs_of(network: trt.INetworkDefinition, log: trt.ILogger, **feeds: np.ndarray) -> list[np.ndarray]:
    """Build and run `network`; return its outputs, in order."""
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    assert engine is not None, log.messages
    outputs = engine.engine.run(feeds)
    return [outputs[tensor.name] for tensor in network.outputs]


def constant(network: trt.INetworkDefinition, value: object) -> trt.ITensor:
    """The tensor of a constant layer."""
    array = np.asarray(value)
    return network.add_constant(array.shape, array).get_output(0)


def ints(network: trt.INetworkDefinition, *values: int) -> trt.ITensor:
    """A constant vector of int32."""
    return constant(network, np.asarray(values, np.int32))


def whole_numbers(shape: Sequence[int]) -> np.ndarray:
    """Small whole numbers of either sign, in no order."""
    return np.arange(math.prod(shape)).reshape(shape) * 7 % 5 - 2


def fractions(shape: Sequence[int]) -> np.ndarray:
    """Numbers between 0 and 1, which every type of floats has."""
    return (whole_numbers(shape) + 3) / 8


def at_least_one(shape: Sequence[int]) -> np.ndarray:
    """Numbers between 1 and 2."""
    return fractions(shape) + 1


def above_zero(shape: Sequence[int]) -> np.ndarray:
    """Whole numbers from 1 to 5."""
    return whole_numbers(shape) + 3


def with_attributes(layer: Any, **attributes: Any) -> Any:
    """Return a layer whose attributes were set."""
    for name, value in attributes.items():
        setattr(layer, name, value)
    return layer


def constant_like(network: trt.INetworkDefinition, x: trt.ITensor, value: object) -> trt.ITensor:
    """A constant of the type of `x`."""
    return constant(network, np.asarray(value).astype(x.dtype.numpy))
