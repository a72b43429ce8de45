"""The main job, step by step: train, calibrate once, compare methods, fine-tune, export, verify."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from intact.calib import METHODS, Calibration
from intact.errors import QuantValueError
from intact.limits import THREADS
from intact.progress import Progress
from intact.signal_to_noise import signal_to_noise
from intact.spec import QuantSpec
from intact.torch.graph_mode import quantize
from intact.torch.qdq.export import ExportReport, export
from intact.torch.quickstart.data import LabelledImages, load
from intact.torch.quickstart.few_bits import few_bit_models
from intact.torch.quickstart.net import ResidualNet
from intact.torch.quickstart.train import (
    LEARNING_RATE,
    Batches,
    Normalized,
    answers,
    default_epochs,
    default_threads,
    train,
)
from intact.torch.training.calibration import CalibrationResult, calibrate
from intact.torch.training.collect_statistics import enabled_quantizers, spec_of
from intact.torch.training.finetuning import finetune

CALIBRATION_IMAGES = 512
CALIBRATION_BATCH = 64
VERIFIED_BATCH = 100


@dataclass(frozen=True)
class QuickstartSettings:
    """User settings of the quickstart; None takes the default for the data."""

    data: Path | None = None
    out: Path = Path("quickstart-out")
    epochs: int | None = None
    seed: int = 0
    threads: int | None = None
    progress: bool = True


@dataclass(frozen=True)
class Row:
    """One model of the comparison, on all test images.

    Attributes:
        name: "float", a calibration method, or "QAT"; and those of 2-bit weights.
        top1: Share of right answers.
        agreement: Share of answers that are the float model's.
        sqnr: Logits of the float model over the difference from them, in dB; None for the float model.
        size: Bytes of its ONNX file.
    """

    name: str
    top1: float
    agreement: float
    sqnr: float | None
    size: int


@dataclass(frozen=True)
class Outcome:
    """All that a quickstart found; plain values, for tables and pages.

    Attributes:
        settings: With the defaults filled in.
        images: The data.
        rows: The comparison, in the order in which it ran.
        calibration: The statistics of the activations.
        specs: Grid of each quantizer of an activation.
        methods: Method by which "auto" chose each quantizer's range.
        export: What was written, and how far ONNX Runtime agrees with the module.
        float_file: The float network as an ONNX file.
    """

    settings: QuickstartSettings
    images: LabelledImages
    rows: tuple[Row, ...]
    calibration: Calibration
    specs: dict[str, QuantSpec]
    methods: dict[str, str]
    export: ExportReport
    float_file: bytes = field(repr=False)

    def batches(self, size: int) -> Iterator[NDArray]:
        """Yield the test images as the networks take them."""
        prepare, images = Normalized(self.images), self.images.test_x
        for start in range(0, len(images), size):
            yield prepare(images[start : start + size]).numpy()


def quickstart(settings: QuickstartSettings) -> Outcome:
    """Run the main job and write model.onnx and model.calib into `settings.out`.

    Deterministic: the same settings, machine and number of threads give the same files.

    Raises:
        IntactError: The data is missing, damaged or too small; the message names it.
    """
    show = _tracker(settings.progress)
    images = load(settings.data, show)
    threads = settings.threads or default_threads(images)
    THREADS.check(threads, "threads", QuantValueError)
    settings = replace(settings, epochs=settings.epochs or default_epochs(images), threads=threads)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _Job(settings, images).run()
    finally:
        torch.set_num_threads(threads_before)


class _Job:
    """One run: what its steps share."""

    def __init__(self, settings: QuickstartSettings, images: LabelledImages) -> None:
        assert settings.epochs is not None
        self.settings, self.images, self.epochs = settings, images, settings.epochs
        self.show = _tracker(settings.progress)
        self.prepare = Normalized(images)
        self.example = self.prepare(images.test_x[:1])
        self.expected = Tensor()

    def run(self) -> Outcome:
        net = train(self.images, self.prepare, self.epochs, self.settings.seed, self.show)
        self.expected = answers(net, self.images.test_x, self.prepare)
        float_file = self._file(net)
        rows = [self._row("float", net, len(float_file))]
        model = quantize(net, example=self.example).model
        calibration = calibrate(
            model, self._calibration_batches(), method="max", progress=self.settings.progress
        )
        size = len(self._file(model))  # of every method: their files differ in the values of the scales alone
        for method in self.show((*METHODS, "auto"), "comparing methods", len(METHODS) + 1):
            calibration.apply(method)
            rows.append(self._row(method, model, size))
        self._finetune(model, teacher=net)
        written = self._write(model, calibration)
        rows.append(self._row("QAT", model, written.size))
        rows += self._few_bits(net)
        names = list(calibration.calibration)
        specs = {name: spec_of(q) for name, q in enabled_quantizers(model).items() if name in names}
        methods = {name: calibration.methods[name] for name in names}
        return Outcome(
            self.settings,
            self.images,
            tuple(rows),
            calibration.calibration,
            specs,
            methods,
            written,
            float_file,
        )

    def _few_bits(self, net: nn.Module) -> Iterator[Row]:
        models = few_bit_models(
            net, self.example, self._calibration_batches(), self._shuffle(), epochs=self._tenth,
            seed=self.settings.seed, progress=self.settings.progress,
        )  # fmt: skip
        for name, model in models:
            yield self._row(name, model, len(self._file(model)))

    @property
    def _tenth(self) -> int:
        """Epochs of fine-tuning: a tenth of the schedule."""
        return max(1, round(self.epochs / 10))

    def _shuffle(self) -> Batches:
        return Batches(self.images, self.prepare, self.settings.seed + 1)

    def _calibration_batches(self) -> tuple[Tensor, ...]:
        return torch.split(self.prepare(self.images.train_x[:CALIBRATION_IMAGES]), CALIBRATION_BATCH)

    def _row(self, name: str, net: nn.Module, size: int) -> Row:
        logits = answers(net, self.images.test_x, self.prepare)
        chosen, expected = logits.argmax(1), self.expected.argmax(1)
        return Row(
            name,
            top1=float((chosen == torch.from_numpy(self.images.test_y)).double().mean()),
            agreement=float((chosen == expected).double().mean()),
            sqnr=None if name == "float" else _sqnr(self.expected, logits),
            size=size,
        )

    def _file(self, net: nn.Module) -> bytes:
        """Export `net` to the bytes of an ONNX file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx")
            export(net, self.example, path, verify=False)
            return path.read_bytes()

    def _finetune(self, model: nn.Module, teacher: ResidualNet) -> None:
        """Finetune by the guide's recipe: a tenth of the schedule, a hundredth of the learning rate,
        scales frozen."""
        finetune(
            model,
            self._shuffle(),
            epochs=self._tenth,
            base_lr=LEARNING_RATE,
            teacher=teacher,
            seed=self.settings.seed,
            progress=self.settings.progress,
        )

    def _write(self, model: nn.Module, calibration: CalibrationResult) -> ExportReport:
        """Write model.onnx, verified on every test image, and model.calib."""
        out = self.settings.out
        out.mkdir(parents=True, exist_ok=True)
        calibration.calibration.provenance[-1] |= {
            "source": self.images.name,
            "samples": min(CALIBRATION_IMAGES, len(self.images.train_x)),
            "seed": self.settings.seed,
        }
        calibration.save(out / "model.calib")
        total = -(-len(self.images.test_x) // VERIFIED_BATCH)
        batches = (
            self.prepare(self.images.test_x[i * VERIFIED_BATCH : (i + 1) * VERIFIED_BATCH])
            for i in self.show(range(total), "verifying in ONNX Runtime", total)
        )
        return export(model, self.example, out / "model.onnx", verify=batches)


def _tracker(shown: bool) -> Any:
    """Return a `Track` that draws a progress bar on standard error, or nothing."""

    def track(items: Iterable[Any], label: str, total: int) -> Iterator[Any]:
        with Progress(label, total, shown) as bar:
            yield from bar.over(items)

    return track


def _sqnr(expected: Tensor, got: Tensor) -> float:
    noise = (got.double() - expected.double()).square().sum()
    return signal_to_noise(float(expected.double().square().sum()), float(noise))
