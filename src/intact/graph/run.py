"""Running a model in ONNX Runtime as written: graph optimizations off, so that nothing saturates or fuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from numpy.typing import NDArray

from intact.errors import UnsupportedError


class Session:
    """A model in ONNX Runtime on the CPU, graph optimizations disabled.

    Args:
        data: The file's bytes.
        extra: Names of inner values that become outputs too.
        threads: Threads within one operator; 0: ONNX Runtime's choice.
    """

    def __init__(self, data: bytes, *, extra: Sequence[str] = (), threads: int = 0) -> None:
        import onnxruntime as ort  # slow to import, and a writer of files does not need it

        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(
                _with_outputs(data, extra) if extra else data, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's exceptions have no common public base
            raise UnsupportedError(
                "onnxruntime",
                f"'{str(error).strip()[:300]}'",
                "a model that this build of ONNX Runtime can run on the CPU",
                "export with verify=False, or choose another opset or format",
            ) from error

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return [i.name for i in self._session.get_inputs()]

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs, the extra ones last."""
        return [o.name for o in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """The value of every output, by name."""
        return dict(zip(self.outputs, self._session.run(None, dict(feeds)), strict=True))


def _with_outputs(data: bytes, extra: Sequence[str]) -> bytes:
    model = onnx.ModelProto.FromString(data)
    present = {o.name for o in model.graph.output}
    for name in extra:
        if name not in present:
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
            present.add(name)
    return bytes(model.SerializeToString())
