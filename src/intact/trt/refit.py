"""Refitter: other weights for an engine that was built with the REFIT flag."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from intact.engine.lower import lower
from intact.errors import IntactError, QuantValueError
from intact.graph import Composer, load, weights_in, with_weights
from intact.trt.cuda_engine import ICudaEngine
from intact.trt.enums import TensorLocation, WeightsRole
from intact.trt.layers import IConstantLayer
from intact.trt.logger import ILogger
from intact.trt.network import INetworkDefinition
from intact.trt.objects import Interface, Reporting
from intact.trt.tensors import Weights, array_of
from intact.trt.values import WholeEngine

SUFFIXES = {
    "kernel": WeightsRole.KERNEL, "bias": WeightsRole.BIAS, "shift.values": WeightsRole.SHIFT,
    "scale.values": WeightsRole.SCALE,
}  # fmt: skip
"""How layers call the constants that they make of weights."""


def weights_of(network: INetworkDefinition, composed: Composer) -> dict[str, Any]:
    """What a refit needs: the model, and for each weight its layer, its role and its name in the model."""
    model = bytes(composed.model().SerializeToString())
    held = weights_in(model).keys()
    rows = []
    for layer in network.layers:
        if isinstance(layer, IConstantLayer):
            name = layer._outputs[0].name
            rows += [(layer.name, int(WeightsRole.CONSTANT), name)] if name in held else []
        for suffix, role in SUFFIXES.items():
            name = f"{layer.name}.{suffix}"
            rows += [(layer.name, int(role), name)] if name in held else []
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
        """Other weights for a layer's role; False, with an error in the log, where it has none."""
        found = [name for layer, kind, name in self._rows if layer == layer_name and kind == int(role)]
        if not found:
            self._report(f"Refitter: layer '{layer_name}' has no weights of role {WeightsRole(role)}")
            return False
        return self.set_named_weights(found[0], weights)

    def set_named_weights(
        self, name: str, weights: Any, location: TensorLocation = TensorLocation.HOST
    ) -> bool:
        """Other weights by their name."""
        array = array_of(weights)
        if array is None or name not in self.get_all_weights():
            self._report(f"Refitter: there are no weights '{name}'" if array is not None else "no weights")
            return False
        self._given[name], self._locations[name] = array, location
        return True

    def get_named_weights(self, name: str) -> Any:
        """What `set_named_weights` was given; None for nothing."""
        return self._given.get(name)

    @cached_property
    def _held(self) -> dict[str, np.ndarray]:
        return weights_in(base64.b64decode(self._engine._record.refit.get("model", "")))

    def get_weights_prototype(self, name: str) -> Weights:
        """Weights without values, as many and of the type as those of that name; else none."""
        found = self._held.get(name)
        return Weights() if found is None else Weights(np.broadcast_to(np.zeros((), found.dtype), found.size))

    def get_weights_location(self, name: str) -> TensorLocation:
        """Where the weights lie that `set_named_weights` was given."""
        return self._locations.get(name, TensorLocation.HOST)

    def unset_named_weights(self, name: str) -> bool:
        """Forget what was given."""
        return self._given.pop(name, None) is not None

    def get_missing(self) -> tuple[list[str], list[WeightsRole]]:
        """Weights that must be given too: none, each stands by itself."""
        return [], []

    def get_missing_weights(self) -> list[str]:
        """Weights that must be given too: none, each stands by itself."""
        return []

    def get_all(self) -> tuple[list[str], list[WeightsRole]]:
        """All weights: layers, and their roles."""
        return [row[0] for row in self._rows], [WeightsRole(row[1]) for row in self._rows]

    def get_all_weights(self) -> list[str]:
        """All weights by name."""
        return [row[2] for row in self._rows]

    def refit_cuda_engine(self) -> bool:
        """Put the weights in; False, with an error in the log, where they do not fit.

        Contexts of the engine run with the new weights from then on.
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
            kept = dict(engine._record.refit, model=base64.b64encode(model).decode())
            engine._adopt(replace(engine._record, refit=kept).added_to(lower(load(model))))
        except (IntactError, ValueError) as error:
            self._report(f"Refitter::refitCudaEngine: {error}")
            return False
        return True

    def refit_cuda_engine_async(self, stream_handle: int = 0) -> bool:
        """`refit_cuda_engine`."""
        return self.refit_cuda_engine()


class OnnxParserRefitter(Interface):
    """Gives an engine the weights of an ONNX file."""

    def __init__(self, refitter: Refitter, logger: ILogger) -> None:
        self._refitter, self._logger = refitter, logger

    def refit_from_file(self, path: str | os.PathLike[str]) -> bool:
        """The weights of a file, by their names."""
        return self.refit_from_bytes(Path(path).read_bytes())

    def refit_from_bytes(self, model: bytes, path: str | None = None) -> bool:
        """The weights of a model, by their names."""
        names = set(self._refitter.get_all_weights())
        found = {n: array for n, array in weights_in(bytes(model)).items() if n in names}
        return bool(found) and all(self._refitter.set_named_weights(n, a) for n, a in found.items())
