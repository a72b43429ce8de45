"""Text encoders and rerankers: BERT-like ONNX files, with the meaning of the files beside them."""

from intact.lm.encoders.encoder_files import is_encoder
from intact.lm.encoders.text_encoder import TextEncoder, load_encoder

__all__ = ["TextEncoder", "is_encoder", "load_encoder"]
