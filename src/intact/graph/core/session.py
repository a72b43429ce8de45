"""Run a model in ONNX Runtime with few optimizations: nothing saturates, no kernel becomes int8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import local
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from intact.errors import QuantValueError, UnsupportedError
from intact.graph.core.proto import to_proto
from intact.graph.core.without_weights import placeholder
from intact.limits import THREADS

_SHARED = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.INT8, ir.DataType.UINT8}
_UNSOUND = ["ReluQuantRewrite"]  # takes a Relu in front of codes of fp8 for one that they do themselves
_MULTIPLY = frozenset({"Conv", "ConvTranspose", "Gather", "Gemm", "GRU", "LSTM", "MatMul", "RNN"})
"""Readers of initializers that are handed over in place."""

_LARGE = 4096  # bytes from which an initializer is worth handing over in place
_FEW = 2**18  # bytes of outputs that may as well all be there at once: one by one they take far more calls
_PLAIN = "fiub"  # kinds of NumPy's own element types: of others ONNX Runtime makes arrays in one way alone


_FOUR_BITS = {"int4": onnx.TensorProto.INT4, "uint4": onnx.TensorProto.UINT4}

_FLOAT32 = "make model and data float32, as `module.float()` does: ONNX Runtime has few operators of float64"


def _holds_float64(model: bytes | onnx.ModelProto) -> bool:
    """Return whether a model has weights or values of float64."""
    graph = (onnx.load_from_string(model) if isinstance(model, bytes) else model).graph
    kinds = [tensor.data_type for tensor in graph.initializer]
    kinds += [x.type.tensor_type.elem_type for x in (*graph.input, *graph.output, *graph.value_info)]
    return onnx.TensorProto.DOUBLE in kinds


class Session:
    """A model in ONNX Runtime on the CPU, graph optimizations disabled.

    Args:
        model: The file's bytes; or a model, whose weights ONNX Runtime then reads where they lie: it must
            stay alive and unchanged as long as the session.
        extra: Names of inner values that become outputs too.
        overridable: Names of initializers that `run` may be fed, instead of what the model has.
        folded: Let ONNX Runtime compute constants once, the floats of stored codes among them, fuse float
            operators and lay out tensors as suits it: the same numbers but for the order of float32 sums.
            Q/DQ pairs stay as they are.
        threads: Threads within one operator; 0: ONNX Runtime's choice.
        fix: What the caller's user can do where ONNX Runtime cannot run the model.
    Raises:
        UnsupportedError: ONNX Runtime cannot run the model; has its words, and `fix`.
    """

    def __init__(
        self,
        model: bytes | ir.Model,
        *,
        extra: Sequence[str] = (),
        overridable: Sequence[str] = (),
        folded: bool = False,
        threads: int = 0,
        fix: str = "choose another opset or format, or a newer ONNX Runtime",
    ) -> None:
        import onnxruntime as ort  # slow to import, and a writer of files does not need it

        options = ort.SessionOptions()
        options.graph_optimization_level = (
            _level(model) if folded else ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        THREADS.check(threads, "threads", QuantValueError)
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # errors come as exceptions; printed, names would steer a terminal
        self._kept: list[Any] = []  # what ONNX Runtime reads in place
        data = model if isinstance(model, bytes) else self._share(model, options, set(overridable))
        try:
            self._session = ort.InferenceSession(
                _with_names(data, extra, overridable), options, providers=["CPUExecutionProvider"],
                disabled_optimizers=_UNSOUND,
            )  # fmt: skip
        except Exception as error:  # ONNX Runtime's exceptions have no common public base
            raise UnsupportedError(
                "onnxruntime",
                f"'{str(error).strip()[:300]}'",
                "a model that this build of ONNX Runtime can run on the CPU",
                _FLOAT32 if "NOT_IMPLEMENTED" in str(error) and _holds_float64(data) else fix,
            ) from error
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = [o.name for o in self._session.get_outputs() if o.type.startswith("tensor(")]
        self._made: dict[tuple[str, ...], int] = {}  # bytes in the last run, by what it was asked for

    def _share(self, model: ir.Model, options: Any, copied: set[str]) -> onnx.ModelProto:
        """Return the model without its large weights, which `options` gets in place."""
        import onnxruntime as ort

        tensors = {
            value: tensor
            for name, value in model.graph.initializers.items()
            if (tensor := value.const_value) is not None and tensor.dtype in _SHARED
            and tensor.nbytes >= _LARGE and name not in copied
            and any(node.graph is model.graph for node, _ in value.uses())  # ONNX Runtime wants that
            and _multiplies(value)
        }  # fmt: skip
        arrays = {value.name: np.ascontiguousarray(tensor.numpy()) for value, tensor in tensors.items()}
        try:
            for value, tensor in tensors.items():
                value.const_value = placeholder(value, tensor, "memory", 0)
            proto = to_proto(model)  # with the small tensors of other files: ONNX Runtime finds none
        finally:
            for value, tensor in tensors.items():
                value.const_value = tensor
        values = [ort.OrtValue.ortvalue_from_numpy(array) for array in arrays.values()]
        if values:
            # The first lets the file be read without them, the second keeps them from being copied.
            options.add_external_initializers(list(arrays), values)
            for name, ort_value in zip(arrays, values, strict=True):
                options.add_initializer(name, ort_value)
        self._kept = [arrays, values]
        return proto

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs, the extra ones last; those that are no tensors are left out."""
        return list(self._outputs)

    def run(self, feeds: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """Return the value of every output, by name."""
        return dict(self.stream(feeds))

    def bind_inputs(self, feeds: Mapping[str, NDArray]) -> BoundInputs:
        """Bind some of the inputs, for values that many runs share."""
        return BoundInputs(self._session, self._outputs, self.to_ort_values(feeds), self._run)

    def to_ort_values(self, feeds: Mapping[str, NDArray]) -> dict[str, Any]:
        """Convert `feeds` to ONNX Runtime's values; strings stay arrays, the only form that it takes."""
        return {name: array if _is_text(array) else _ort_value(array) for name, array in feeds.items()}

    def stream(
        self, feeds: Mapping[str, Any], names: Sequence[str] | None = None
    ) -> Iterator[tuple[str, NDArray]]:
        """Yield outputs by name, one after the other; each is released when the next one is asked for.

        Args:
            feeds: The inputs by name: arrays, or what `to_ort_values` made of them.
            names: Which outputs; None: all.
        Raises:
            UnsupportedError: ONNX Runtime cannot run the model on them; has its words.
        """
        wanted = self._outputs if names is None else list(names)
        if not wanted:
            return
        arrays = [array for array in feeds.values() if isinstance(array, np.ndarray)]
        plain = all(array.dtype.kind in _PLAIN for array in arrays)
        pairs: Iterator[tuple[str, NDArray]]
        if any(map(_is_text, arrays)) or (plain and self._made.get(tuple(wanted), _FEW + 1) <= _FEW):
            results = self._run(self._session.run, wanted, dict(feeds))
            pairs = ((name, array) for name, array in zip(wanted, results, strict=True) if array is not None)
        else:
            pairs = self._one_by_one(wanted, feeds)
        size = 0
        for name, array in pairs:
            size += array.nbytes if array.dtype.kind in _PLAIN else _FEW + 1
            yield name, array
        self._made[tuple(wanted)] = size

    def _one_by_one(self, wanted: list[str], feeds: Mapping[str, Any]) -> Iterator[tuple[str, NDArray]]:
        arrays = {name: array for name, array in feeds.items() if isinstance(array, np.ndarray)}
        values = self._run(self._session.run_with_ort_values, wanted, {**feeds, **self.to_ort_values(arrays)})
        values.reverse()
        for name in wanted:
            value = values.pop()
            if value.has_value():
                yield name, _array(value, name)

    @staticmethod
    def _run(run: Callable[..., list[Any]], wanted: list[str], feeds: Mapping[str, Any]) -> list[Any]:
        """Run ONNX Runtime's session."""
        try:
            return run(wanted, feeds)
        except Exception as error:  # ONNX Runtime's exceptions have no common public base
            raise UnsupportedError(
                "onnxruntime",
                f"'{str(error).strip()[:300]}'",
                "inputs that the model runs on",
                "bring the data to the shapes that the model was made for",
            ) from error


def _array(value: Any, name: str) -> NDArray:
    """Return the array in a value of ONNX Runtime."""
    try:
        array: NDArray = value.numpy()
    except RuntimeError as error:
        raise UnsupportedError(
            "onnxruntime", f"output '{name}' of {value.data_type()}: '{str(error).strip()[:100]}'",
            "outputs of types that ONNX Runtime gives to Python", "cast it to float32 in the model",
        ) from error  # fmt: skip
    return array


class BoundInputs:
    """Runs a session with some inputs fixed; several threads may share it.

    ONNX Runtime takes as long for each of these as for a small operator where they come with every run. It
    binds no strings: with some, all inputs come with every run.
    """

    def __init__(
        self, session: Any, outputs: Sequence[str], common: Mapping[str, Any], ran: Callable[..., Any]
    ) -> None:
        self._session, self._outputs, self._common, self._run = session, outputs, common, ran
        self._has_text = any(map(_is_text, common.values()))
        self._own = local()  # a binding is for one run at a time

    def stream(self, feeds: Mapping[str, NDArray]) -> Iterator[tuple[str, NDArray]]:
        """Yield all outputs as `Session.stream` does; `feeds` are the other inputs."""
        if self._has_text or any(map(_is_text, feeds.values())):
            arrays = self._run(self._session.run, list(self._outputs), {**self._common, **feeds})
            yield from (
                (n, array) for n, array in zip(self._outputs, arrays, strict=True) if array is not None
            )
            return
        binding = self._binding()
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, _ort_value(array))
        for name in self._outputs:
            binding.bind_output(name)
        self._run(lambda *_: self._session.run_with_iobinding(binding), [], {})
        # With ONNX Runtime 1.24 these are the binding's, and their arrays views of what goes with it.
        for name, value in zip(self._outputs, binding.get_outputs(), strict=True):
            if value.has_value():
                yield name, value.numpy().copy()
        binding.clear_binding_outputs()

    def _binding(self) -> Any:
        if not hasattr(self._own, "binding"):
            self._own.binding = self._session.io_binding()
            for name, value in self._common.items():
                self._own.binding.bind_ortvalue_input(name, value)
        return self._own.binding


def _is_text(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "OU"


def _ort_value(array: NDArray) -> Any:
    import onnxruntime as ort

    try:
        if array.size == 1 and array.dtype.name in _FOUR_BITS:  # two codes share a byte, one has it alone
            code, kind = array.view(np.uint8), _FOUR_BITS[array.dtype.name]
            return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(code, kind)
        return ort.OrtValue.ortvalue_from_numpy(array)
    except Exception as error:  # as those of a run; of a type of NumPy's that it does not know
        raise UnsupportedError(
            "onnxruntime", f"an array of {array.dtype}", "types that it takes", "convert the data"
        ) from error


def _level(model: bytes | ir.Model) -> Any:
    """Return the optimization level: all, but the change of layout for weights of float16.

    It gains nothing there, and ONNX Runtime 1.23 to 1.29 end the process in it.
    """
    import onnxruntime as ort

    level = ort.GraphOptimizationLevel
    half = isinstance(model, ir.Model) and any(
        value.dtype == ir.DataType.FLOAT16 for value in model.graph.initializers.values()
    )
    return level.ORT_ENABLE_EXTENDED if half else level.ORT_ENABLE_ALL


def _multiplies(value: ir.Value) -> bool:
    """Return whether an initializer is nothing but a weight, of floats or of codes: others are copied.

    ONNX Runtime moves a Transpose past an Add by transposing what is added, under the name that it has, and
    would then read what stands there in place: other numbers, or an error.
    """
    readers = [node for node, _ in value.uses()]
    codes = [node for node in readers if node.op_type == "DequantizeLinear"]
    behind = [node for dequantizer in codes for node, _ in dequantizer.outputs[0].uses()]
    return all(node.op_type in _MULTIPLY for node in readers + behind if node not in codes)


def _with_names(data: bytes | onnx.ModelProto, extra: Sequence[str], overridable: Sequence[str]) -> bytes:
    """Serialize a model with more outputs, and with initializers that are inputs as well."""
    if isinstance(data, bytes) and not extra and not overridable:
        return data
    model = onnx.ModelProto.FromString(data) if isinstance(data, bytes) else data
    present = {o.name for o in model.graph.output}
    for name in extra:
        if name not in present:
            model.graph.output.append(onnx.ValueInfoProto(name=name))  # ONNX Runtime infers the type
            present.add(name)
    wanted, inputs = set(overridable), {i.name for i in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name in wanted - inputs:
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    return bytes(model.SerializeToString())
