"""INetworkDefinition: the network, the table of its ``add_*`` calls, the order and loops of its layers."""

from intact.trt.network.network_definition import INetworkDefinition

__all__ = ["INetworkDefinition"]
