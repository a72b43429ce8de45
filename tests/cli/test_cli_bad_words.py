"""Every verb with every option and every bad value: one line and status 2, or the work is done. No traceback.

The list is fixed: what the command line has, times the values below.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from typer.models import OptionInfo

from intact.calib import Calibration, TrtCache
from intact.cli import app
from intact.cli.verbs import bench
from intact.errors import QuantValueError
from intact.formats import GGML_TYPES, GgufTensor, write_gguf

QUICK = ("--method", "max", "--bias-correction", "off", "--equalization", "off", "--no-progress")
BASES = {
    "quantize": ("{net}", "--data", "{data}", "-o", "{out}", *QUICK),
    "calibrate": ("{net}", "--data", "{data}", "--method", "max", "--no-progress"),
    "analyze": ("{net}", "--data", "{data}", "--budget", "2", *QUICK),
    "tune": ("{net}", "--data", "{data}", "-o", "{out}", "--budget", "1", "--trials", "1", *QUICK),
    "explain": ("{int8}",),
    "check": ("{int8}",),
    "export": ("{int8}", "--for", "tensorrt11", "-o", "{out}"),
    "migrate": ("{cache}", "--onnx", "{net}", "-o", "{out}"),
    "strip": ("{int8}", "-o", "{out}"),
    "convert": ("{gguf}", "{out}", "--to", "gguf"),
    "build": ("{int8}", "-o", "{out}"),
    "run": ("{int8}", "--data", "{data}"),
    "bench": ("{int8}",),
    "verify": ("{int8}", "--data", "{data}", "--traced", "0"),
    "report": ("{calib}", "--out", "{out}"),
    "quickstart": (),
    "trtexec": ("--onnx={net}", "--iterations=1", "--duration=0", "--warmUp=0"),
    "cache to-onnx": ("{cache}", "{net}", "-o", "{out}"),
    "cache from-onnx": ("{int8}", "-o", "{out}"),
    "cache diff": ("{cache}", "{cache}"),
    "embed": ("{net}", "a text"),
    "lm quantize": ("{gguf}", "-o", "{out}"),
    "lm run": ("{gguf}", "a prompt"),
    "lm chat": ("{gguf}",),
    "lm perplexity": ("{gguf}", "--text", "{rubbish}"),
    "lm compare": ("{gguf}", "{gguf}", "--text", "{rubbish}"),
    "lm bench": ("{gguf}",),
    "lm serve": ("{gguf}", "--port", "0"),
    "lm show": ("{gguf}",),
    "ort status": (),
}
SOURCES = ("{net}", "{int8}", "{calib}", "{cache}", "{gguf}")
NASTY = "a[/x][red]\x1b[2J\x9b31m\u202e\udc80\n\r"
NUMBERS = ("", "nan", "inf", "-1", "1e400", "1" + "0" * 30, "\u0663", "1.5", NASTY)
TEXTS = ("", "nan", "-1", "x" * 5000, ",", ":", "x:-1", "*" * 40 + "[z-a]", "1x1x1", NASTY)
PATHS = ("", "nowhere", "{folder}", "{fifo}", "{nasty}", "{rubbish}", "x" * 300, NASTY)


def options() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(verb, option, bad values) of the whole command line."""
    verbs = app.VERBS | {f"{group} {name}": verb for group, (_, verbs) in app.GROUPS.items()
                         for name, verb in verbs.items()}  # fmt: skip
    for verb in BASES:
        for name, hint in get_type_hints(verbs[verb], include_extras=True).items():
            about = next((option for option in get_args(hint) if isinstance(option, OptionInfo)), None)
            kinds = str(get_args(hint)[0]) if about else "bool"
            if about is not None and "bool" not in kinds:
                values = (
                    PATHS if "Path" in kinds else NUMBERS if "int" in kinds or "float" in kinds else TEXTS
                )
                default = about.default  # where typer keeps the first name
                yield verb, default if isinstance(default, str) else f"--{name.replace('_', '-')}", values


@pytest.fixture
def files(tmp_path: Path, net_proto: Any, int8_bytes: bytes) -> dict[str, Path]:
    folder = tmp_path / "bad"
    folder.mkdir()
    names = {
        name: folder / name for name in ("net", "int8", "calib", "cache", "out", "fifo", "rubbish", "gguf")
    }
    names |= {"data": folder / "data.npy", "nasty": folder / "a[/x]\x1b[2J\u202e", "folder": folder / "empty"}
    names["folder"].mkdir()
    names["net"].write_bytes(net_proto.SerializeToString())
    names["int8"].write_bytes(int8_bytes)
    names["rubbish"].write_bytes(bytes(range(256)) * 4)
    names["nasty"].parent.mkdir()
    names["nasty"].write_text("no such thing")
    os.mkfifo(names["fifo"])
    np.save(names["data"], np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32))
    calibration = Calibration()
    calibration.collect("x", np.arange(9, dtype=np.float32))
    calibration.save(names["calib"])
    kind = GgufTensor(GGML_TYPES["F32"], (3,))
    write_gguf(names["gguf"], {}, {"w": kind}, lambda name: np.ones(3, np.float32))
    TrtCache({"x": np.float32(0.1), "r1": np.float32(0.2)}).save(names["cache"])
    return names


@pytest.fixture(autouse=True)
def _reader(files: dict[str, Path]) -> Iterator[None]:
    """Takes what is written to the pipe, which would wait for a reader, as `cp` does."""
    done, pipe = threading.Event(), os.open(files["fifo"], os.O_RDONLY | os.O_NONBLOCK)

    def read() -> None:
        while not done.is_set():
            if select.select([pipe], [], [], 0.01)[0] and not os.read(pipe, 2**20):
                done.wait(0.01)  # the end, until somebody writes again

    reader = threading.Thread(target=read)
    reader.start()
    yield
    done.set()
    reader.join()
    os.close(pipe)


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing that takes long, and a working folder of its own."""

    def refuse(*_: Any) -> None:
        raise QuantValueError("quickstart", "its arguments", "a test that is quick", "nothing to mend")

    times = {"ms": 1.0, "median_ms": 1.0, "load_ms": 1.0, "peak_mb": 1.0}
    monkeypatch.setattr(bench, "_run_case", lambda case, settings: dict(times))
    if find_spec("torch") is not None:  # without it quickstart says so, and does nothing
        monkeypatch.setattr("intact.torch.quickstart.run._Job", refuse)
    monkeypatch.chdir(tmp_path)


def assert_told(status: int, out: str, err: str) -> None:
    """Done, or refused in words; and nothing on either stream that steers a terminal."""
    assert status in (0, 2), (out, err)
    assert "Traceback" not in err
    assert status == 0 or "intact: " in err
    for text in (out, err):
        assert all(line.isprintable() for line in text.split("\n")), ascii(text)


@pytest.mark.parametrize(
    ("verb", "option", "values"), list(options()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_no_value_of_an_option_ends_in_a_traceback(
    run, harmless: None, files: dict[str, Path], verb: str, option: str, values: tuple[str, ...]
) -> None:
    names = {name: str(path) for name, path in files.items()}
    base = [word.format(**names) for word in BASES[verb]]
    for value in values:
        inputs = value.format(**names) if value.startswith("{") else value
        assert_told(*run(*verb.split(), *base, f"{option}={inputs}"))


@pytest.mark.parametrize("verb", BASES)
@pytest.mark.parametrize("value", PATHS)
def test_no_file_ends_in_a_traceback(
    run, harmless: None, files: dict[str, Path], verb: str, value: str
) -> None:
    names = {name: str(path) for name, path in files.items()}
    base = [word.format(**names) for word in BASES[verb]]
    inputs = value.format(**names) if value.startswith("{") else value
    places = [at for at, word in enumerate(BASES[verb]) if word in SOURCES]
    for at in places:
        status, out, err = run(*verb.split(), *base[:at], inputs, *base[at + 1 :])
        assert status == 2 or verb == "bench", (out, err)  # whose own process would refuse the file
        assert_told(status, out, err)


@pytest.mark.parametrize(
    "words",
    [(), ("no-such-verb",), ("--no-such-option",), (NASTY,), ("cache", NASTY), ("quantize",),
     ("run", "a", "b", NASTY), ("kernels", "--json")],
)  # fmt: skip
def test_words_that_are_no_command_are_refused(run, words: tuple[str, ...]) -> None:
    status, _, err = run(*words)
    assert status == 2 and "Traceback" not in err
    assert all(line.isprintable() for line in err.split("\n")), ascii(err)


def test_the_list_reaches_every_verb() -> None:
    verbs = [*app.VERBS, *(f"{group} {verb}" for group, (_, verbs) in app.GROUPS.items() for verb in verbs)]
    # `lm verify` starts other programs, and these two of `ort` change the environment and take no values.
    apart = {"kernels", "lm verify", "ort enable", "ort disable"}
    assert sorted(BASES) == sorted(set(verbs) - apart)
    assert {verb for verb, *_ in options()} == {verb for verb in BASES if verb != "cache diff"}


def test_json_of_nasty_names_is_exact(run, net_proto: Any, tmp_path: Path) -> None:
    nasty = "a\x1b[2J\x9b\u202e\n[/x]\x7f"
    model = type(net_proto)()
    model.CopyFrom(net_proto)
    model.graph.node[0].name = nasty
    (tmp_path / "nasty.onnx").write_bytes(model.SerializeToString())
    status, out, err = run("explain", tmp_path / "nasty.onnx", "--json")
    assert (status, err) == (0, "")
    assert nasty in [layer["layer"] for layer in json.loads(out)["layers"]]
    assert all(line.isprintable() for line in out.split("\n"))
    assert_told(*run("explain", tmp_path / "nasty.onnx"))
