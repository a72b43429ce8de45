"""`.calib` files: what goes in comes out, and damage is an error that names the file."""

import errno
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from intact.calib import Calibration, Histogram, Range
from intact.calib import calib_files as calib_files
from intact.checksums import digest_of
from intact.errors import FileAccessError, FileFormatError


def example():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    calibration = Calibration()
    calibration.collect("a/b", x)
    calibration.collect("weight: 2", -x, axis=1)
    calibration["range"] = Range((0, 1))
    calibration["range"].collect(x)
    calibration["one axis"] = Range(2)
    calibration["one axis"].collect(x)
    calibration["whole range"] = Range()
    calibration["whole range"].collect(x)
    calibration["nothing"] = Histogram(-1)
    calibration.record(source="digits", batches=1, samples=2, sha256="00ff")
    return calibration


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("calib") / "model.calib"
    example().save(path)
    return path.read_bytes()


def test_what_goes_in_comes_out(tmp_path):
    example().save(tmp_path / "model.calib")
    loaded = Calibration.load(tmp_path / "model.calib")
    assert list(loaded.items()) == list(example().items())
    assert loaded.provenance == example().provenance
    assert [p.name for p in tmp_path.iterdir()] == ["model.calib"]
    loaded["nothing"].collect(np.ones((2, 5), np.float32))
    assert loaded["nothing"].channels == 5, "a loaded statistic goes on collecting"


def test_equal_work_gives_equal_files(content, tmp_path):
    Calibration.load(_write(tmp_path, content)).save(tmp_path / "again.calib")
    assert (tmp_path / "again.calib").read_bytes() == content


def test_an_empty_calibration(tmp_path):
    Calibration().save(tmp_path / "empty.calib")
    assert len(Calibration.load(tmp_path / "empty.calib")) == 0


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileAccessError, match=r"missing\.calib': got 'No such file") as refused:
        Calibration.load(tmp_path / "missing.calib")
    assert isinstance(refused.value, OSError) and refused.value.errno == errno.ENOENT


def _write(folder, content):
    path = folder / "model.calib"
    path.write_bytes(content)
    return path


def _same_or_refused(path):
    """Damage is an error, or has changed nothing that counts."""
    try:
        loaded = Calibration.load(path)
    except FileFormatError as error:
        assert str(path) in str(error)
    else:
        assert dict(loaded) == dict(example()) and loaded.provenance == example().provenance


@given(data=st.data())
def test_flipped_bits(content, tmp_path_factory, data):
    header = 8 + struct.unpack("<Q", content[:8])[0]
    # Half of the flips hit the header, which is short beside the counts.
    place = data.draw(st.integers(0, header - 1) | st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    _same_or_refused(_write(tmp_path_factory.mktemp("flip"), bytes(damaged)))


@given(data=st.data())
def test_truncated_and_lengthened(content, tmp_path_factory, data):
    length = data.draw(st.integers(0, len(content) - 1) | st.integers(0, 4000))
    folder = tmp_path_factory.mktemp("cut")
    with pytest.raises(FileFormatError):
        Calibration.load(_write(folder, content[:length]))
    with pytest.raises(FileFormatError):
        Calibration.load(_write(folder, content + b"\0"))


@given(st.binary(max_size=200))
def test_arbitrary_bytes(tmp_path_factory, content):
    with pytest.raises(FileFormatError):
        Calibration.load(_write(tmp_path_factory.mktemp("noise"), content))


def test_every_flipped_bit_of_the_counts_is_noticed(content, tmp_path, rng):
    for place in rng.integers(8 + struct.unpack("<Q", content[:8])[0], len(content), 20):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(FileFormatError, match="content that does not match its checksum"):
            Calibration.load(_write(tmp_path, bytes(damaged)))


def _forge(body, arrays, **head):
    """A file with a right checksum, whatever it says."""
    whole = {"version": 1, "sha256": digest_of(body, arrays), "body": body} | head
    return save(arrays, {"intact.calib": json.dumps(whole)})


def _arrays(**changes):
    histogram = Histogram()
    histogram.collect(np.float32([1.0, -2.0]))
    return {f"x/{name}": array for name, array in (histogram.to_arrays() | changes).items()}


def _body(*entries, provenance=()):
    return {"tensors": list(entries), "provenance": list(provenance)}


X = {"name": "x", "kind": "histogram", "axis": None}
FORGED = {
    "version": (
        _forge(_body(X), _arrays(), version=2),
        "got version 2 of the .calib format, want version 1. Fix: read it with the version of INTact that "
        "wrote it, or collect again",
    ),
    "no calibration": (save({"x": np.zeros(1)}), "got safetensors without calibration data"),
    "no JSON": (save({}, {"intact.calib": "{"}), "got metadata that is no JSON"),
    "deep JSON": (save({}, {"intact.calib": "[" * 100_000}), "got metadata that is no JSON"),
    "no object": (save({}, {"intact.calib": "[]"}), "got metadata [], want a JSON object"),
    "no body": (_forge([], {}), "got content that does not match its checksum"),
    "no list": (_forge({"tensors": 3, "provenance": []}, {}), "got tensors 3, want a list"),
    "entry": (_forge(_body(7), _arrays()), "got index entry 7, want a name, a kind and an axis"),
    "kind": (_forge(_body(X | {"kind": "sketch"}), _arrays()), "got index entry {"),
    "axis": (_forge(_body(X | {"axis": True}), _arrays()), "got index entry {"),
    "axes": (_forge(_body(X | {"axis": [0]}), _arrays()), "got index entry {"),
    "twice": (_forge(_body(X, X), _arrays()), "got tensor 'x' twice, want distinct names"),
    "surplus": (_forge(_body(), _arrays()), "got arrays of no tensor: x/count, x/exponent"),
    "provenance": (
        _forge(_body(X, provenance=[3]), _arrays()),
        "got provenance [3], want a list of records",
    ),
    "missing": (
        _forge(_body(X), {k: v for k, v in _arrays().items() if k != "x/min"}),
        "tensor 'x': min: got nothing, want float32 of shape (1,)",
    ),
    "dtype": (
        _forge(_body(X), _arrays(count=np.int32([2]))),
        "tensor 'x': count: got int32 of shape (1,), want int64 of shape (1,)",
    ),
    "shape": (
        _forge(_body(X), _arrays(negative=np.zeros((1, 7), np.int64))),
        "tensor 'x': negative: got int64 of shape (1, 7), want int64 of shape (1, 4096)",
    ),
    "negative": (
        _forge(_body(X), _arrays(positive=np.full((1, 4096), -1))),
        "tensor 'x': positive: got a negative count, want counts >= 0",
    ),
    "sum": (
        _forge(_body(X), _arrays(count=np.int64([3]))),
        "tensor 'x': count: got [3], want the sum of the bins, [2]",
    ),
    "exponent": (
        _forge(_body(X), _arrays(exponent=np.int64([1000]))),
        "tensor 'x': exponent: got [1000], want the bin width that belongs to min and max",
    ),
    "channels": (
        _forge(_body(X), _arrays(exponent=np.int64([0, 0]))),
        "tensor 'x': channels: got 2, want 1 where axis is None",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_file_names_what_is_wrong(name, tmp_path):
    forged, message = FORGED[name]
    path = _write(tmp_path, forged)
    with pytest.raises(FileFormatError) as error:
        Calibration.load(path)
    assert str(error.value).startswith(f"file '{path}': ") and message in str(error.value)
