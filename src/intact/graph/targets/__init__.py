"""Forms that parsers of other engines take where ONNX allows several."""

from intact.graph.targets.tensorrt_pairs import write_tensorrt_pairs

__all__ = ["write_tensorrt_pairs"]
