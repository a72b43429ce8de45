"""Data files from strangers: bombs, damage and lies are errors that name the file, and take no memory."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from intact.errors import CalibrationError, FileFormatError, IntactError, QuantValueError
from intact.ptq import Images, calibrate, open_data
from intact.ptq.data.model_inputs import Feeds, Input

F32 = np.dtype(np.float32)
IMAGE = [Input("x", F32, ("N", 3, 4, 6))]
OPEN = [Input("x", F32, ("N", None))]


def read(data: Any, inputs: list[Input] = IMAGE) -> list[Feeds]:
    return list(open_data(data, inputs).batches)


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """NumPy tells what it takes: no case may take more than a few MB on a file's word."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    kind = "<H" if version == 1 else "<I"
    text = header.encode("utf-8") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(kind, len(text)) + text + data


def header(descr: str = "'<f4'", shape: str = "(1, 3, 4, 6)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


VALUES = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6)
NPY = {
    "2^40 elements": npy(header(shape="(1099511627776,)")),
    "a product beyond 64 bits": npy(header(shape="(4294967296, 4294967296, 4294967296)")),
    "0 times 2^62": npy(header(shape="(0, 4611686018427387904, 4611686018427387904)")),
    "a negative size": npy(header(shape="(-1, 3, 4, 6)")),
    "a size of 5000 digits": npy(header(shape=f"({'9' * 5000},)")),
    "65 axes": npy(header(shape=f"({'1, ' * 65})"), bytes(4)),
    "objects": npy(header("'|O'")),
    "texts without values": npy(header("'<U8'")),
    "texts of a million letters": npy(header("'<U1000000'")),
    "texts without letters": npy(header("'<U0'")),
    "records": npy(header("[('a', '<f4')]"), version=3),
    "a record in words": npy(header("'f4,f4'")),
    "bytes without a type": npy(header("'|V2'")),
    "times": npy(header("'<M8[s]'")),
    "brackets in brackets": npy("(" * 9000),
    "signs before signs": npy("{'descr': " + "-" * 9000 + "1}"),
    "a call": npy("{'descr': __import__('os').system('ls'), 'fortran_order': False, 'shape': (1,)}"),
    "a header of 4 GB": b"\x93NUMPY\x02\x00" + b"\xff" * 4,
    "a header cut off": npy(header())[:40],
    "keys twice": npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
    "a version of its own": b"\x93NUMPY\x07\x00" + b"\0" * 20,
    "values cut off": npy(header(), VALUES.tobytes()[:-1]),
    "nothing": b"",
    "float24": npy(header("'<f3'")),
}


@pytest.mark.parametrize("content", NPY.values(), ids=NPY)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_lying_array_file_is_named(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"data{suffix}"
    if suffix == ".npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("x.npy", content)
    with pytest.raises(FileFormatError, match=rf"^file '.*data\{suffix}'"):
        read(path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", "deflated.npz"])
def test_every_header_that_numpy_writes_is_read(
    tmp_path: Path, version: Any, order: str, suffix: str
) -> None:
    file, path = io.BytesIO(), tmp_path / f"data{suffix}"
    np.lib.format.write_array(file, np.asarray(VALUES, ">f8", order=order), version=version)
    if suffix == ".npy":
        path.write_bytes(file.getvalue())
    else:
        method = zipfile.ZIP_DEFLATED if "deflated" in suffix else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", method) as packed:
            packed.writestr("x.npy", file.getvalue())
    (batch,) = read(path)
    assert np.array_equal(batch["x"], VALUES) and batch["x"].dtype == np.float32


def test_a_bomb_is_refused_and_one_that_nobody_reads_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("x", "other"):
            with packed.open(f"{name}.npy", "w", force_zip64=True) as file:
                shape = "(1, 3, 4, 6)" if name == "x" else "(12582912,)"
                file.write(npy(header(shape=shape)))
                for _ in range(48 if name == "other" else 0):
                    file.write(bytes(2**20))
                if name == "x":
                    file.write(VALUES.tobytes())
    (batch,) = read(path)
    assert np.array_equal(batch["x"], VALUES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTACT_LIMIT_NPZ_BYTES", str(2**20))
        with pytest.raises(
            FileFormatError, match=r"array 'other': got 50,331,648 bytes.*INTACT_LIMIT_NPZ_BYTES"
        ):
            read(path, [Input("other", F32, (None,))])


def test_damaged_encrypted_and_odd_archives_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=VALUES)
    whole = path.read_bytes()
    at = whole.index(b"PK\x01\x02")
    cases = {
        "cut": whole[:-30], "cut early": whole[:40], "text": b"no archive", "empty": b"",
        "encrypted": whole[:6] + b"\x01" + whole[7 : at + 8] + b"\x01" + whole[at + 9 :],
        "lzma": whole[:8] + b"\x0e" + whole[9 : at + 10] + b"\x0e" + whole[at + 11 :],
        "one byte": whole[:120] + bytes([whole[120] ^ 255]) + whole[121:],
    }  # fmt: skip
    for content in cases.values():
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"^file '.*data\.npz'"):
            read(path)


def test_every_byte_of_an_archive_may_be_wrong(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=VALUES)
    whole, refused = path.read_bytes(), 0
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :])
        try:
            read(path)
        except IntactError:
            refused += 1
    assert refused > 20


def test_a_sparse_file_is_refused_by_its_batch(tmp_path: Path) -> None:
    path = tmp_path / "sparse.npy"
    start = npy(header(shape="(1, 274877906944)"))
    with path.open("wb") as file:
        file.write(start)
        os.truncate(path, len(start) + 2**40)
        file.flush()
    os.truncate(path, len(start) + 2**40)
    with pytest.raises(QuantValueError, match=r"sparse\.npy': input 'x': got 1,099,511,627,776 bytes"):
        read(path, OPEN)


def png(width: int, height: int, bits: int = 8, colour: int = 0, data: bytes = b"") -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def save(image: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


BAD_IMAGES: dict[str, tuple[Callable[[], bytes], str]] = {
    "1 x 60000, PNG": (
        lambda: save(Image.new("1", (1, 60000)), "PNG"),
        "resized to 256 x 15360000: got 3,932",
    ),
    "1 x 65000, JPEG": (lambda: save(Image.new("L", (1, 65000)), "JPEG"), "INTACT_LIMIT_IMAGE_PIXELS"),
    "30000 x 30000 declared": (lambda: png(30000, 30000), "got 900,000,000 pixels"),
    "2^31 x 2^31 declared": (lambda: png(2**31 - 1, 2**31 - 1), "pixels|cannot identify"),
    "10000 x 10000 declared, no data": (lambda: png(10000, 10000), "an image that Pillow can read"),
    "cut off": (lambda: save(Image.new("RGB", (64, 64)), "JPEG")[:300], "an image that Pillow can read"),
    "PostScript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot identify"),
    "float_steps": (lambda: save(Image.fromarray(np.float32([[0, 0.5]])), "TIFF"), "got floats per pixel"),
    "32-bit numbers": (lambda: save(Image.fromarray(np.int32([[0, 9]])), "TIFF"), "got 32-bit numbers"),
    "text": (lambda: b"no image", "cannot identify"),
    "nothing": (lambda: b"", "cannot identify"),
}


@pytest.mark.parametrize(("make", "message"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_an_image_that_asks_for_too_much_or_is_none_is_named(tmp_path: Path, make: Any, message: str) -> None:
    (tmp_path / "a.png").write_bytes(make())
    with pytest.raises(CalibrationError, match=rf"^file '.*a\.png'.*({message})"):
        read(tmp_path, [Input("x", F32, ("N", 3, 224, 224))])


GREYS = np.array([[0, 128, 129, 255, 257, 32896], [1000, 25700, 40000, 65279, 65534, 65535]], np.uint16)
IN_8_BITS = np.round(GREYS / 257).astype(np.uint8)


def raw(folder: Path) -> np.ndarray:
    return read(Images(folder, fit="stretch"), [Input("x", np.dtype(np.uint8), ("N", 1, 2, 6))])[0]["x"][0, 0]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bit_greys_are_scaled_and_not_cut_off(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.png").write_bytes(save(Image.fromarray(GREYS), kind))
    assert np.array_equal(raw(tmp_path), IN_8_BITS)


def test_16_bit_colours_keep_their_upper_8_bits(tmp_path: Path) -> None:
    line = b"\0" + b"".join(struct.pack(">HHH", v, v, 65535 - v) for v in GREYS[0].tolist())
    (tmp_path / "a.png").write_bytes(png(6, 1, 16, 2, line))
    pixels = read(Images(tmp_path), [Input("x", np.dtype(np.uint8), ("N", 3, 1, 6))])[0]["x"][0]
    assert pixels[0, 0].tolist() == (GREYS[0] >> 8).tolist() and pixels[2, 0, 0] == 255


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_other_modes_are_read_as_colours(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGB", (6, 4), (255, 255, 255)).convert(mode)
    options = {"transparency": bytes(range(256))} if mode == "P" else {}
    kind = "PNG" if mode in ("1", "L", "P", "LA", "RGB", "RGBA") else "JPEG"
    (tmp_path / "a.png").write_bytes(save(image, kind, **options))
    pixels = read(tmp_path, [Input("x", np.dtype(np.uint8), ("N", 3, 4, 6))])[0]["x"]
    assert (pixels > 250).all()


def test_the_first_of_moving_pictures_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (6, 4), colour) for colour in ("white", "black")]
    for kind in ("GIF", "PNG", "WEBP"):
        (tmp_path / "a.gif").write_bytes(save(frames[0], kind, save_all=True, append_images=frames[1:]))
        assert (read(tmp_path, [Input("x", np.dtype(np.uint8), ("N", 3, 4, 6))])[0]["x"] > 250).all()


def test_fifos_are_no_images_and_no_data(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(CalibrationError, match="no image"):
        read(tmp_path)
    os.mkfifo(tmp_path / "a.npy")
    with pytest.raises(FileFormatError, match="neither file nor folder"):
        read(tmp_path / "a.npy")


SCRIPTS = {
    "no Python": ("def load_data(:\n", r"SyntaxError.*, in '.*mine\.py', line 1"),
    "raises elsewhere": (
        "import json\ndef load_data():\n    json.loads('{')\n",
        r"called in '.*mine\.py', line 3, raised in '.*json.*', line",
    ),
    "asks us amiss": (
        "import intact\ndef load_data():\n    intact.QuantSpec('int99')\n",
        r"^file '.*mine\.py', line 3: .*int99",
    ),
    "unfit batch": (
        "import numpy as np\ndef load_data():\n    yield np.ones((1, 3, 4))\n",
        r"^load_data\(\) of '.*mine\.py': batch 0 of data: input",
    ),
    "raises on import": ("1 / 0\n", r"ZeroDivisionError: division by zero, raised in '.*mine\.py', line 1"),
    "raises": ("def load_data():\n    raise KeyError('k')\n", r"KeyError: 'k', raised in .*line 2"),
    "raises later": (
        "def load_data():\n    yield [[]]\n    1 / 0\n",
        r"batch 0 of data|ZeroDivisionError",
    ),
    "raises at once": ("def load_data():\n    1 / 0\n    yield 1\n", r"ZeroDivisionError.*line 2"),
    "exits": ("import sys\nsys.exit(1)\n", r"SystemExit: 1"),
    "nothing": (
        "def load_data():\n    return None\n",
        r"load_data\(\) of '.*mine\.py': data: got a NoneType",
    ),
    "itself": ("def load_data():\n    return __file__\n", r"load_data\(\) of '.*mine\.py'"),
    "unlike lengths": ("def load_data():\n    return [[[[1], [1, 2]]]]\n", r"want an array"),
    "texts": ("def load_data():\n    return ['a', 'b']\n", r"dtype <U1"),
    "objects": ("def load_data():\n    return [object()]\n", r"dtype object"),
    "an argument": ("def load_data(x):\n    return x\n", r"TypeError"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_that_fails_is_told_as_its_own(tmp_path: Path, text: str, message: str) -> None:
    script = tmp_path / "mine.py"
    script.write_text(text)
    with pytest.raises(QuantValueError, match=message):
        read(script)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_told_with_file_and_tensor(tmp_path: Path, value: float) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> '
        "g (float[n, 3, 8, 8] x) => (float[n, 16, 8, 8] y) { y = Conv(x, w) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((16, 3, 1, 1), np.float32), "w"))
    data = np.ones((2, 3, 8, 8), np.float32)
    data[1, 2, 3, 4] = value
    np.save(tmp_path / "bad.npy", data)
    with pytest.raises(CalibrationError, match=r"batch 0 of data \(bad\.npy\): tensor 'x'"):
        calibrate(model, tmp_path / "bad.npy", progress=False)
    np.save(tmp_path / "bad.npy", data[:0])
    with pytest.raises(CalibrationError, match=r"bad\.npy"):
        calibrate(model, tmp_path / "bad.npy", progress=False)
