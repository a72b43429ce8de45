"""What tests write networks with: constants, and the outputs that the engine makes."""

from __future__ import annotations

import numpy as np

import intact.trt as trt


def run_network(
    network: trt.INetworkDefinition, logger: trt.ILogger, **feeds: np.ndarray
) -> list[np.ndarray]:
    """The outputs of `network`, in order."""
    builder = trt.Builder(logger)
    engine = builder.build_engine(network, builder.create_builder_config())
    assert engine is not None, logger.messages
    outputs = engine.engine.run(feeds)
    return [outputs[tensor.name] for tensor in network.outputs]


def constant(network: trt.INetworkDefinition, value: object) -> trt.ITensor:
    """The tensor of a constant layer."""
    array = np.asarray(value)
    return network.add_constant(array.shape, array).get_output(0)


def ints(network: trt.INetworkDefinition, *values: int) -> trt.ITensor:
    """A constant vector of int32."""
    return constant(network, np.asarray(values, np.int32))
