"""Helpers that write networks: constants, and the outputs that the engine makes."""

from __future__ import annotations

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
