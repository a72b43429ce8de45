"""Graph mode: insert quantizers between the calls of a float module, placed by the rules of
`intact.placement`.
"""

from intact.torch.graph_mode.quantize_module import quantize
from intact.torch.graph_mode.report import GraphModeReport, GraphModeResult

__all__ = ["GraphModeReport", "GraphModeResult", "quantize"]
