"""INetworkDefinition: the network, the table of its ``add_*`` calls, the order and loops of its layers."""

from intact.trt.network.definition import INetworkDefinition

__all__ = ["INetworkDefinition"]
