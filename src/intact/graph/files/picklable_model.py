"""Pickle a model for another process."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from intact.errors import UnsupportedError
from intact.graph.core.proto import from_proto, to_proto
from intact.graph.files.io import MAX_BYTES
from intact.graph.infer.inference import infer_shapes


class PicklableModel:
    """Holds a model, and is pickled as the bytes of its file: nodes and values of one are a circle.

    Args:
        model: It stays unchanged as long as parcels of it are sent.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model = model

    def __getstate__(self) -> bytes:
        """Return the bytes.

        Raises:
            UnsupportedError: They are more than one message can hold.
        """
        proto = to_proto(self.model)
        if (size := proto.ByteSize()) > MAX_BYTES:
            raise UnsupportedError(
                "model", f"{size} bytes", f"at most {MAX_BYTES} for work on other machines",
                "do the work in this process",
            )  # fmt: skip
        return bytes(proto.SerializeToString())

    def __setstate__(self, state: bytes) -> None:
        self.model = from_proto(onnx.ModelProto.FromString(state))
        infer_shapes(self.model)
