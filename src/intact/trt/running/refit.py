"""Refitter: other weights for an engine that was built with the REFIT flag."""

from __future__ import annotations

import base64
import os
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from intact.engine.lower import lower
from intact.errors import IntactError, QuantValueError
from intact.graph import TypedComposer, load, weights_in, with_weights
from intact.processes import cached_property
from intact.reading import read_bytes
from intact.trt.base.enums import ErrorCode, TensorLocation, WeightsRole
from intact.trt.base.host_interfaces import ILogger, LogSeverity
from intact.trt.base.itensor import Weights, array_of
from intact.trt.base.trt_object import Interface, Reporting
from intact.trt.building.data_dependent_shapes import WholeEngine
from intact.trt.building.onnx_parser import KeepsErrors, ParserError
from intact.trt.building.split_model import StoredModel
from intact.trt.layers import IConstantLayer
from intact.trt.network import INetworkDefinition
from intact.trt.running.cuda_engine import ICudaEngine

NO_WEIGHTS = "the model has no weights of a name that the engine has"
SUFFIXES = {
    "kernel": WeightsRole.KERNEL, "bias": WeightsRole.BIAS, "shift.values": WeightsRole.SHIFT,
    "scale.values": WeightsRole.SCALE,
}  # fmt: skip
"""Suffixes of the constants that layers make of weights."""


def weights_of(
    network: INetworkDefinition, composed: TypedComposer, only: Collection[str] | None = None
) -> dict[str, Any]:
    """Return what a refit needs: the model, and for each weight its layer, role and name in the model.

    Args:
        network: Its layers have the weights.
        composed: The network as ONNX nodes.
        only: The names of the weights that may change; None: all.
    """
    model = bytes(composed.model().SerializeToString())
    constants = weights_in(model).keys()
    rows = []
    for layer in network.layers:
        if isinstance(layer, IConstantLayer):
            name = layer._outputs[0].name
            rows += [(layer.name, int(WeightsRole.CONSTANT), name)] if name in constants else []
        for suffix, role in SUFFIXES.items():
            name = f"{layer.name}.{suffix}"
            rows += [(layer.name, int(role), name)] if name in constants else []
    if only is not None:
        rows = [row for row in rows if row[2] in only]
    return {"model": base64.b64encode(model).decode(), "weights": rows}


class Refitter(Reporting):
    """Gives an engine other weights.

    Args:
        engine: Built with ``BuilderFlag.REFIT``, or with STRIP_PLAN, whose weights are not left out here.
        logger: Gets errors.
    """

    max_threads: int = 1
    weights_validation: bool = True

    def __init__(self, engine: ICudaEngine, logger: ILogger) -> None:
        self._engine, self._logger = engine, logger
        self._rows = [tuple(row) for row in engine._record.refit.get("weights", ())]
        self._given: dict[str, np.ndarray] = {}
        self._locations: dict[str, TensorLocation] = {}
        if not engine.refittable:
            self._report("Refitter: the engine was built without BuilderFlag.REFIT or STRIP_PLAN")

    logger = property(lambda self: self._logger)

    def set_weights(self, layer_name: str, role: WeightsRole, weights: Any) -> bool:
        """Set other weights for a layer's role; return False, with an error in the log, where it has none."""
        names = [name for layer, kind, name in self._rows if layer == layer_name and kind == int(role)]
        if not names:
            self._report(f"Refitter: layer '{layer_name}' has no weights of role {WeightsRole(role)}")
            return False
        return self.set_named_weights(names[0], weights)

    def set_named_weights(
        self, name: str, weights: Any, location: TensorLocation = TensorLocation.HOST
    ) -> bool:
        """Set other weights by name; return False, with an error in the log, for a strange name or count."""
        array = array_of(weights)
        if array is None or name not in self.get_all_weights():
            self._report(f"Refitter: there are no weights '{name}'" if array is not None else "no weights")
            return False
        count = self._current_weights[name].size
        if array.size != count:
            self._report(
                f"Refitter: weights '{name}': got {array.size} values, want {count}. Fix: give that many"
            )
            return False
        self._given[name], self._locations[name] = array, location
        return True

    def get_named_weights(self, name: str) -> Any:
        """Return the weights set by `set_named_weights`; None where none were."""
        return self._given.get(name)

    @cached_property
    def _current_weights(self) -> dict[str, np.ndarray]:
        return weights_in(base64.b64decode(self._engine._record.refit.get("model", "")))

    def get_weights_prototype(self, name: str) -> Weights:
        """Return weights without values, with count and type of those of that name; else none."""
        current = self._current_weights.get(name)
        return (
            Weights()
            if current is None
            else Weights(np.broadcast_to(np.zeros((), current.dtype), current.size))
        )

    def get_weights_location(self, name: str) -> TensorLocation:
        """Return the location of the weights set by `set_named_weights`."""
        return self._locations.get(name, TensorLocation.HOST)

    def unset_named_weights(self, name: str) -> bool:
        """Forget the weights set under a name."""
        return self._given.pop(name, None) is not None

    def get_missing(self) -> tuple[list[str], list[WeightsRole]]:
        """Return the weights that must be given too: none, each stands by itself."""
        return [], []

    def get_missing_weights(self) -> list[str]:
        """Return the weights that must be given too: none, each stands by itself."""
        return []

    def get_all(self) -> tuple[list[str], list[WeightsRole]]:
        """Return all weights: layers, and their roles."""
        return [row[0] for row in self._rows], [WeightsRole(row[1]) for row in self._rows]

    def get_all_weights(self) -> list[str]:
        """Return all weights by name."""
        return [row[2] for row in self._rows]

    def refit_cuda_engine(self) -> bool:
        """Refit the engine; return False, with an error in the log, where weights do not fit.

        Contexts of the engine run with the new weights from then on.

        Raises:
            QuantValueError: The engine cannot be refitted.
        """
        engine = self._engine
        try:
            if not engine.refittable:
                raise QuantValueError("refit", "an engine without REFIT", "one with it", "build it again")
            if engine._record.choices or isinstance(engine._engine, WholeEngine):
                raise QuantValueError(
                    "refit", "an engine with implicit int8, or in ONNX Runtime as a whole", "another",
                    "build the network again",
                )  # fmt: skip
            model = with_weights(base64.b64decode(engine._record.refit["model"]), self._given)
            refit = dict(engine._record.refit, model=base64.b64encode(model).decode())
            engine._adopt(replace(engine._record, refit=refit).add_to(lower(load(model))))
        except (IntactError, ValueError) as error:
            self._report(f"Refitter::refitCudaEngine: {error}")
            return False
        return True

    def refit_cuda_engine_async(self, stream_handle: int = 0) -> bool:
        """Refit as `refit_cuda_engine` does."""
        return self.refit_cuda_engine()


class OnnxParserRefitter(KeepsErrors, Interface):
    """Gives an engine the weights of an ONNX file."""

    def __init__(self, refitter: Refitter, logger: ILogger) -> None:
        self._refitter = refitter
        self._logger: ILogger = logger
        self._errors: list[ParserError] = []
        self._proto = StoredModel()

    def load_model_proto(self, model: bytes, path: str | None = None) -> bool:
        """Keep the bytes of a model for `refit_model_proto`."""
        return self._proto.load_model(model, path)

    def load_initializer(self, name: str, data: Any, size: int | None = None) -> bool:
        """Load weights in memory for the model that `load_model_proto` kept."""
        return self._proto.load_initializer(name, data, size) or self._refuse(
            f"there is no initializer '{name}' of such a size in the model"
        )

    def refit_model_proto(self) -> bool:
        """Refit with the weights of the model that was loaded."""
        return self._refit(self._proto.bytes)

    def refit_from_file(self, path: str | os.PathLike[str]) -> bool:
        """Refit with the weights of a file, by their names."""
        try:
            return self._refit(read_bytes(path))
        except IntactError as error:
            return self._refuse(str(error))

    def refit_from_bytes(self, model: bytes, path: str | None = None) -> bool:
        """Refit with the weights of a model, by their names."""
        return self._refit(bytes(model))

    def _refit(self, model: bytes) -> bool:
        names = set(self._refitter.get_all_weights())
        try:
            arrays = {n: array for n, array in weights_in(model).items() if n in names}
        except IntactError as error:
            return self._refuse(str(error))
        refused = [n for n, array in arrays.items() if not self._refitter.set_named_weights(n, array)]
        if refused or not arrays:
            return self._refuse(f"weights {', '.join(refused)} do not fit" if refused else NO_WEIGHTS)
        return True

    def _refuse(self, message: str) -> bool:
        self._errors.append(ParserError(message, kind=ErrorCode.REFIT_FAILED))
        self._logger.log(LogSeverity.ERROR, message)
        return False
