"""TensorRT's calibration cache as it is found in the wild."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from intact.calib import TrtCache
from intact.errors import CalibrationError, FileFormatError
from intact.numerics import scale_from_amax
from intact.spec import QuantSpec

# As TensorRT's own documents and users' reports print them.
MNIST = """TRT-7000-EntropyCalibration2
data: 3c008912
conv1: 3c88edfc
pool1: 3c88edfc
conv2: 3ddc858b
pool2: 3ddc858b
ip1: 3db6bd6e
ip2: 3e691968
prob: 3c010a14
"""
NAMES = """TRT-8601-EntropyCalibration2
images: 3c010a14
/model.0/conv/Conv_output_0: 3d9c2f1e
(Unnamed Layer* 300) [Constant]_output: 3f000000
conv1/convolution:0: 3d0b7086
a: b: 3f800000
"""


@pytest.mark.parametrize("text", [MNIST, NAMES], ids=["mnist", "names"])
def test_a_cache_comes_back_byte_for_byte(text: str, tmp_path: Path) -> None:
    (tmp_path / "in.cache").write_text(text)
    TrtCache.load(tmp_path / "in.cache").save(tmp_path / "out.cache")
    assert (tmp_path / "out.cache").read_bytes() == text.encode()


def test_the_digits_are_a_big_endian_float32() -> None:
    cache = TrtCache.parse(MNIST)
    assert (cache.version, cache.algorithm) == ("7000", "EntropyCalibration2")
    assert cache.scales["ip2"] == np.frombuffer(bytes.fromhex("3e691968"), ">f4")[0]
    assert list(cache.scales) == ["data", "conv1", "pool1", "conv2", "pool2", "ip1", "ip2", "prob"]
    parsed = TrtCache.parse("TRT-8601-MinMaxCalibration\nx: 3c010204\n")
    assert parsed.scales["x"] == scale_from_amax(1.0, QuantSpec("int8")), "3c010204 is 1/127"


def test_names_end_at_the_last_colon_and_space() -> None:
    assert list(TrtCache.parse(NAMES).scales) == [
        "images", "/model.0/conv/Conv_output_0", "(Unnamed Layer* 300) [Constant]_output",
        "conv1/convolution:0", "a: b",
    ]  # fmt: skip


def test_other_writers_spellings_are_read() -> None:
    cache = TrtCache.parse("TRT-8XXX-EntropyCalibration2\r\nx: 3C010204 \r\n\r\n371: 0\r\ny: a00001\r\n")
    assert cache.version == "8XXX"
    assert {name: int(s.view(np.uint32)) for name, s in cache.scales.items()} == {
        "x": 0x3C010204, "371": 0, "y": 0x00A00001,
    }  # fmt: skip
    assert "371: 00000000\ny: 00a00001\n" in cache.to_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: header: got '', want TRT-<version>-<algorithm>"),
        ("TRT-8601\nx: 3c010204", "line 1: header: got 'TRT-8601'"),
        ("TRT-8601-LegacyCalibration3\n", "line 1: algorithm: got 'LegacyCalibration3', want one of"),
        ("x: 3c010204\n", "line 1: header: got 'x: 3c010204'"),
        ("{H}x 3c010204\n", "line 2: entry: got 'x 3c010204'"),
        ("{H}x:3c010204\n", "line 2: entry: got 'x:3c010204'"),
        ("{H}x: 3f000000\n\ny: 0.5\n", "line 4: entry: got 'y: 0.5'"),
        ("{H}x: 3f00000001\n", "line 2: entry: got 'x: 3f00000001'"),
        ("{H}x: \n", "line 2: entry: got 'x: '"),
        ("{H}: 3f000000\n", "line 2: entry: got ': 3f000000'"),
        ("{H}x: 7fc00000\n", "line 2: scale of 'x': got nan (7fc00000)"),
        ("{H}x: 7f800000\n", "line 2: scale of 'x': got inf"),
        ("{H}x: 7f7fffff\n", "line 2: scale of 'x': got 3.4028"),
        ("{H}x: bf800000\n", "line 2: scale of 'x': got -1.0"),
        ("{H}x: 80000000\n", "line 2: scale of 'x': got -0.0"),
        ("{H}x: 3f800000\ny: 3f800000\nx: 3f800000\n", "line 4: name: got 'x' again, after line 2"),
    ],
    ids=[
        "empty", "no-algorithm", "unknown-algorithm", "no-header", "no-colon", "no-space", "decimal",
        "ten-digits", "no-digits", "no-name", "nan", "infinity", "infinite-range", "negative",
        "negative-zero", "duplicate",
    ],
)  # fmt: skip
def test_a_damaged_cache_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.cache"
    file.write_text(text.replace("{H}", "TRT-8601-EntropyCalibration2\n"))
    with pytest.raises(FileFormatError) as refused:
        TrtCache.load(file)
    assert str(refused.value).startswith(f"file '{file}': {message}")


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "bad.cache").write_bytes(b"TRT-8601-EntropyCalibration2\nx\xff: 3f800000\n")
    with pytest.raises(FileFormatError, match="line 2: got bytes that are no text in UTF-8"):
        TrtCache.load(tmp_path / "bad.cache")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scales": {"x": np.float32("nan")}}, "scale of 'x': got nan"),
        ({"scales": {"x": np.float32(-1)}}, "scale of 'x': got -1.0"),
        ({"scales": {"a\nb": np.float32(1)}}, "a name of one line"),
        ({"scales": {"": np.float32(1)}}, "a name of one line"),
        ({"algorithm": "Entropy"}, "algorithm: got 'Entropy'"),
        ({"version": "8.6"}, "header: got 'TRT-8.6-"),
    ],
    ids=["nan", "negative", "two-lines", "no-name", "algorithm", "version"],
)
def test_what_no_file_could_hold_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(CalibrationError) as refused:
        TrtCache(**arguments)
    assert message in str(refused.value)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "there.cache"
    target.mkdir()
    with pytest.raises(OSError):
        TrtCache.parse(MNIST).save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["there.cache"]


names = st.text(st.characters(blacklist_characters="\n", codec="utf-8"), min_size=1)
scales = st.floats(0, float(np.finfo(np.float32).max) / 128, width=32).map(np.float32)


@given(st.dictionaries(names, scales))
def test_any_content_survives(content: dict[str, np.float32]) -> None:
    content = {name: scale for name, scale in content.items() if not np.signbit(scale)}
    read = TrtCache.parse(TrtCache(content).to_text()).scales
    assert list(read) == list(content)
    assert [read[n].tobytes() for n in content] == [content[n].tobytes() for n in content]


def test_ranges_of_a_cache_give_its_scales_again() -> None:
    cache = TrtCache.parse(MNIST)
    calibration = cache.to_calibration()
    assert calibration.provenance[0]["source"] == "TensorRT calibration cache, TRT-7000-EntropyCalibration2"
    spec = QuantSpec("int8")
    for name, amax in calibration.amax(spec).items():
        scale = scale_from_amax(amax, spec)
        np.testing.assert_array_max_ulp(scale, cache.scales[name], maxulp=1)
