"""The immutable state that one stage of quantization hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.calib import Calibration, Range
from intact.graph import Model, prune
from intact.placement import Placement
from intact.ptq.measure.holdout_halves import HoldoutHalf
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.input_means import Means
from intact.ptq.measure.output_errors import Errors
from intact.ptq.measure.top1_margin import Top1Margins
from intact.ptq.scope.quantization_ranges import Activations, CandidateCache, QuantizedWeight, Ranges
from intact.ptq.scope.quantization_targets import Key, Target
from intact.ptq.scope.settings import Settings


@dataclass(frozen=True)
class StoredScale:
    """Names the initializers that hold the scale and zero point of an activation."""

    target: Target
    scale: str
    zero_point: str


@dataclass(frozen=True)
class BiasError:
    """Describes a layer whose bias can be corrected.

    Attributes:
        node: Conv, ConvTranspose, Gemm, MatMul or a recurrent layer.
        bias: Name of the initializer that only this layer adds.
        added: It was put there for the correction, as zeros.
        error: Mean error of the output, one entry for each of the bias.
    """

    node: str
    bias: str
    added: bool
    error: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InputMeans:
    """Holds the mean inputs of layers, with the model that they were measured on.

    Attributes:
        model: The float model that they are of, over all hold-out samples.
        means: By layer, see `intact.ptq.measure.input_means`.
    """

    model: Model
    means: Means

    def are_of(self, state: State) -> bool:
        """Return whether they were measured on the model of `state`."""
        return self.model is state.model


@dataclass(frozen=True, eq=False)
class State:
    """Holds a model on its way through quantization. `intact.ptq.stages.stage_list` lists the stages.

    A stage returns another state (`dataclasses.replace`) and changes a clone of the model, so that a proposal
    can be dropped, and two states be compared.

    Attributes:
        settings: The user's settings.
        data: The calibration data as the user gave them.
        model: The float model; the quantized one from the stage on that inserts pairs.
        placement: Where pairs belong, what fuses with what, and why.
        targets: The tensors to quantize, and how.
        opset: The opset of the file.
        calibration: The statistics of the activations; None until they are collected.
        runs: The hold-out samples to measure choices on; empty where the user gave statistics.
        halves: Two halves of them, each with the statistics of the data without it; empty where they are few.
        margins: The top-1 margins over all data; empty where the user gave statistics.
        traced_model: The float model whose inner tensors `runs` hold; None once it was freed.
        channels: The ends of the channels of tensors that may be smoothed, by tensor.
        chooser: The ranges that each method would choose.
        configurations: The ranges to compare, by name.
        weights: The weights to quantize, until they are in the model as codes.
        input_means: The mean inputs of layers, if a stage measured them.
        scales: The initializers that hold the activations' scales.
        bias_errors: The mean errors that weight rounding causes, for layers whose bias may be corrected.
        errors: The errors of the outputs on the hold-out samples, by configuration.
        unseen: The errors on `halves`, each with ranges that the chosen configuration has without it.
        chosen: The name of the configuration in use.
        corrected, equalized: Whether biases were corrected, and channels equalized.
        not_equalized: A clause on convolutions that cannot be equalized, with the reason.
        smoothed: The names of the tensors whose channels were smoothed.
        bits16: The reasons why targets have 16 bits, by key.
        in_float: The reasons why tensors stay in float, by name.
        dynamic: The reasons why layers get the ranges of their inputs while the model runs, by node.
        extra_time: What 16 bits and float take more than 8 bits, as a part of the predicted time.
        dynamic_codes: A quantized model of the same float weights that has the codes of layers of `dynamic`;
            None: they are computed.
        warnings: Sentences that users should read.
        notes: Sentences on what was rewritten before placement.
        stored_bytes: Of all constants of the model as it came; 0 for branches.
        candidate_cache: Ranges that methods have chosen so far. All states of one model share it.
    """

    settings: Settings
    data: Any
    model: Model
    placement: Placement
    targets: tuple[Target, ...]
    opset: int
    notes: tuple[str, ...] = ()
    calibration: Calibration | None = None
    runs: tuple[HoldoutSample, ...] = ()
    halves: tuple[HoldoutHalf, ...] = field(default=(), repr=False)
    margins: Top1Margins = field(default_factory=Top1Margins, repr=False)
    traced_model: Model | None = field(default=None, repr=False)
    channels: Mapping[str, Range] = field(default_factory=dict)
    chooser: Activations | None = None
    configurations: Mapping[str, Ranges] = field(default_factory=dict)
    weights: tuple[QuantizedWeight, ...] = ()
    input_means: InputMeans | None = field(default=None, repr=False)
    scales: tuple[StoredScale, ...] = ()
    bias_errors: tuple[BiasError, ...] = ()
    errors: Mapping[str, Errors] = field(default_factory=dict)
    unseen: Errors = field(default_factory=Errors)
    chosen: str = ""
    corrected: bool = False
    equalized: bool = False
    not_equalized: str = ""
    smoothed: tuple[str, ...] = ()
    bits16: Mapping[Key, str] = field(default_factory=dict)
    in_float: Mapping[str, str] = field(default_factory=dict)
    dynamic: Mapping[str, str] = field(default_factory=dict)
    extra_time: float = 0.0
    dynamic_codes: Model | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    stored_bytes: int = 0
    candidate_cache: CandidateCache = field(default_factory=dict, repr=False)

    @property
    def has_run(self) -> bool:
        """Return whether the inner tensors that hold-out samples keep belong to this model."""
        return self.traced_model is self.model

    def with_own_model(self) -> State:
        """Return the state with a clone of the model, which may be changed in place."""
        model = self.model.clone()
        means = self.input_means
        if means is not None and means.are_of(self):
            means = replace(means, model=model)
        return replace(
            self, model=model, traced_model=model if self.has_run else self.traced_model, input_means=means
        )

    def with_note(self, note: str) -> State:
        """Return the state of a model that was changed in place: without what nobody reads, and the note."""
        prune(self.model)
        return replace(self, notes=(*self.notes, note))

    @property
    def activations(self) -> list[Target]:
        """The targets that are activations."""
        return [target for target in self.targets if target.site.role == "activation"]

    @property
    def tensors_to_calibrate(self) -> list[str]:
        """The names of the tensors to calibrate."""
        return list(dict.fromkeys(target.site.value for target in self.activations))

    @property
    def ranges(self) -> Ranges:
        """The chosen ranges of the activations, or those of the first configuration."""
        return self.configurations[self.chosen or next(iter(self.configurations))]
