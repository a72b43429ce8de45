"""Calibration data of every kind, and the message for each that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from intact.errors import CalibrationError, FileFormatError, IntactError, QuantValueError
from intact.ptq import Images, open_data, quantize
from intact.ptq.data.model_inputs import Feeds, Input

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
IMAGE = [Input("x", F32, ("N", 3, 4, 6))]
TEXT = [Input("ids", I64, ("N", "T")), Input("mask", I64, ("N", "T"))]


def read(data: Any, inputs: list[Input], **options: Any) -> list[Feeds]:
    return list(open_data(data, inputs, **options).batches)


def samples(count: int, *shape: int) -> np.ndarray:
    return np.arange(count * np.prod(shape), dtype=np.float32).reshape(count, *shape)


def test_an_array_of_samples_comes_in_batches() -> None:
    x = samples(5, 3, 4, 6)
    source = open_data(x, IMAGE, batch_size=2)
    batches = list(source.batches)
    assert source.total == 3
    assert [len(batch["x"]) for batch in batches] == [2, 2, 1]
    assert np.array_equal(np.concatenate([batch["x"] for batch in batches]), x)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_files_of_arrays_are_read(tmp_path: Path, suffix: str) -> None:
    path, x = tmp_path / f"data{suffix}", samples(3, 3, 4, 6)
    np.save(path, x) if suffix == ".npy" else np.savez(path, any_name=x)
    (batch,) = read(path, IMAGE)
    assert np.array_equal(batch["x"], x)


def test_an_npz_file_has_an_array_per_input(tmp_path: Path) -> None:
    ids = np.arange(6).reshape(2, 3)
    np.savez(tmp_path / "t.npz", ids=ids, mask=ids * 0.5, extra=ids)
    with pytest.raises(
        QuantValueError, match=r"file '.*t\.npz': input 'mask': got dtype float64, want int64"
    ):
        read(tmp_path / "t.npz", TEXT)
    np.savez(tmp_path / "t.npz", ids=ids, mask=(ids > 0).astype(np.int32), extra=ids)
    (batch,) = read(tmp_path / "t.npz", TEXT)
    assert batch.keys() == {"ids", "mask"} and batch["mask"].dtype == np.int64


def test_several_inputs_by_position(tmp_path: Path) -> None:
    ids, mask = np.arange(6).reshape(3, 2), np.array([[1, 1], [1, 0], [0, 1]])
    np.savez(tmp_path / "two.npz", ids, mask)
    result = "np.arange(6).reshape(3, 2), np.eye(3, 2, dtype=int)"
    script = f"import numpy as np\ndef load_data():\n    return {result}\n"
    (tmp_path / "two.py").write_text(script)
    for data in ((ids, mask), [ids, mask], [(ids, mask)], tmp_path / "two.npz", tmp_path / "two.py"):
        (batch,) = read(data, TEXT)
        assert list(batch) == ["ids", "mask"] and np.array_equal(batch["ids"], ids)
    with pytest.raises(QuantValueError, match="input 'mask': got no array for it"):
        read([ids], TEXT)


def test_sequences_of_unlike_lengths_are_a_batch_each() -> None:
    ids = [np.arange(length) for length in (3, 5, 2)]
    masks = [item > 0 for item in ids]
    batches = read({"ids": ids, "mask": masks}, TEXT)
    assert [batch["ids"].shape for batch in batches] == [(1, 3), (1, 5), (1, 2)]
    whole = [{"ids": item[None], "mask": mask[None]} for item, mask in zip(ids, masks, strict=True)]
    for other in (whole, {name: [batch[name] for batch in whole] for name in ("ids", "mask")}):
        for ours, theirs in zip(batches, read(other, TEXT), strict=True):
            assert np.array_equal(ours["ids"], theirs["ids"]) and np.array_equal(ours["mask"], theirs["mask"])


def test_masks_are_0_and_1_of_any_type() -> None:
    mask, ids = np.array([[True, False]]), np.zeros((1, 2), np.int64)
    for dtype in (np.int32, np.float32, np.bool_):
        for values in (mask, mask.astype(np.int64)):
            if dtype is np.float32 and values.dtype != np.bool_:
                continue
            inputs = [TEXT[0], Input("mask", np.dtype(dtype), ("N", "T"))]
            (batch,) = read([(ids, values)], inputs)
            assert batch["mask"].dtype == dtype and batch["mask"].tolist() == [[1, 0]]
    with pytest.raises(QuantValueError, match="got dtype int64, want bool"):
        read([(ids, ids + 2)], [TEXT[0], Input("mask", np.dtype(np.bool_), ("N", "T"))])


ITEMS = {
    "arrays": lambda x: [x, x],
    "tuples with labels": lambda x: [(x, 7), (x, 8)],
    "lists": lambda x: [[x], [x]],
    "dicts with more": lambda x: [{"x": x, "label": 1}] * 2,
    "a generator": lambda x: (x for _ in range(2)),
    "float64": lambda x: [x.astype(np.float64)] * 2,
}


@pytest.mark.parametrize("make", ITEMS.values(), ids=ITEMS)
def test_batches_of_any_form_are_taken(make: Any) -> None:
    x = samples(2, 3, 4, 6)
    batches = read(make(x), IMAGE)
    assert len(batches) == 2
    assert all(np.array_equal(batch["x"], x) and batch["x"].dtype == np.float32 for batch in batches)


def test_tuples_go_to_inputs_in_order() -> None:
    ids, mask = np.ones((2, 5), np.int64), np.zeros((2, 5), np.int64)
    (batch,) = read([(ids, mask)], TEXT)
    assert batch["ids"].all() and not batch["mask"].any()


def test_num_batches_reads_no_further() -> None:
    def endless() -> Iterator[np.ndarray]:
        while True:
            yield samples(1, 3, 4, 6)

    assert len(read(endless(), IMAGE, num_batches=3)) == 3


def test_a_script_says_its_data(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import numpy as np\ndef load_data():\n    yield np.zeros((2, 3, 4, 6), np.float32)\n")
    (batch,) = read(script, IMAGE)
    assert batch["x"].shape == (2, 3, 4, 6)
    script.write_text("data = 1\n")
    with pytest.raises(QuantValueError, match=r"mine\.py': got no function load_data"):
        read(script, IMAGE)


def save_image(path: Path, size: tuple[int, int], colour: Any) -> None:
    mode = "RGB" if isinstance(colour, tuple) else "L"
    Image.new(mode, size, colour).save(path)


def test_a_folder_of_images_is_prepared_as_for_imagenet(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    save_image(tmp_path / "sub" / "b.png", (60, 40), (255, 0, 51))
    save_image(tmp_path / "a.PNG", (6, 4), 102)
    (tmp_path / "notes.txt").write_text("no image")
    (batch,) = read(tmp_path, IMAGE)
    assert batch["x"].shape == (2, 3, 4, 6) and batch["x"].dtype == np.float32
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    assert batch["x"][0, :, 0, 0] == pytest.approx((102 / 255 - mean) / std, abs=1e-6)
    assert batch["x"][1, :, 2, 3] == pytest.approx((np.float32([1, 0, 0.2]) - mean) / std, abs=1e-6)


def test_options_of_images(tmp_path: Path) -> None:
    save_image(tmp_path / "a.png", (4, 4), (10, 20, 30))
    images = Images(tmp_path, size=(2, 2), fit="stretch", mean=(0,), std=(0.5,), layout="NHWC", colour="bgr")
    (batch,) = read(images, [Input("x", F32, (None, None, None, 3))])
    assert batch["x"].shape == (1, 2, 2, 3)
    assert batch["x"][0, 0, 0] == pytest.approx(np.array([30, 20, 10]) / 127.5)
    (raw,) = read(Images(tmp_path), [Input("x", np.dtype(np.uint8), (1, 4, 4, 3))])
    assert raw["x"][0, 1, 1].tolist() == [10, 20, 30]
    (grey,) = read(Images(tmp_path, size=(2, 3)), [Input("x", F32, ("N", 1, None, None))])
    assert grey["x"].shape == (1, 1, 2, 3) and 0 < grey["x"].max() < 0.2


def test_the_centre_is_cut_out(tmp_path: Path) -> None:
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 10:14] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    (batch,) = read(Images(tmp_path, mean=(0,), std=(1,)), [Input("x", F32, ("N", 3, 7, 7))])
    bright = batch["x"][0, 0] > 0.5
    assert bright[:, 3].all() and not bright[:, [0, 6]].any()


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff no image")
    with pytest.raises(CalibrationError, match=r"bad\.jpg'.*want an image that Pillow can read"):
        read(tmp_path, IMAGE)


WRONG: dict[str, tuple[Any, list[Input], type[IntactError], str]] = {
    "rank": ([samples(3, 4, 6)], IMAGE, QuantValueError,
             "batch 0 of data: input 'x': got shape (3, 4, 6), want [N, 3, 4, 6]. Fix: add the batch axis"),
    "size": ([samples(1, 3, 4, 5)], IMAGE, QuantValueError,
             "batch 0 of data: input 'x': got shape (1, 3, 4, 5), want [N, 3, 4, 6]. Fix: bring the data"),
    "pixels": ([np.zeros((1, 3, 4, 6), np.uint8)], IMAGE, QuantValueError,
               "input 'x': got dtype uint8, want float32. Fix: convert the data, and normalize"),
    "float_steps": ([(np.zeros((1, 2)), np.zeros((1, 2)))], TEXT, QuantValueError,
              "input 'ids': got dtype float64, want int64"),
    "missing name": ([{"ids": np.zeros((1, 2), int)}], TEXT, QuantValueError,
                     "batch 0 of data: input 'mask': got no array for it among ['ids']"),
    "missing element": ([(np.zeros((1, 2), int),)], TEXT, QuantValueError,
                        "input 'mask': got no array for it"),
    "no batch": ([], IMAGE, CalibrationError, "data (list): got no batch, want at least one"),
    "empty batch": ([samples(0, 3, 4, 6)], IMAGE, QuantValueError, "want at least one element"),
    "no samples": (samples(0, 3, 4, 6), IMAGE, CalibrationError, "data (arrays): got no batch"),
    "counts": ({"ids": np.zeros((2, 3), int), "mask": np.zeros((4, 3), int)}, TEXT, QuantValueError,
               "data: got {'ids': 2, 'mask': 4} samples, want as many for every input"),
    "a number": (3, IMAGE, QuantValueError, "data: got a int, want a folder of images, an .npy"),
    "no file": ("nowhere", IMAGE, FileFormatError, "data 'nowhere': got nothing there"),
}  # fmt: skip


@pytest.mark.parametrize("data, inputs, kind, message", WRONG.values(), ids=WRONG)
def test_data_that_do_not_fit_are_named(data: Any, inputs: list[Input], kind: type, message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        read(data, inputs)


def test_an_input_may_be_empty_beside_others() -> None:
    """Keys of a past that has not begun."""
    inputs = [
        Input("ids", np.dtype(np.int64), ("N", "S")),
        Input("past", np.dtype(np.float32), ("N", 2, "P", 4)),
    ]
    feeds = {"ids": np.ones((3, 5), np.int64), "past": np.zeros((3, 2, 0, 4), np.float32)}
    (result,) = read([feeds], inputs)
    assert result["past"].shape == (3, 2, 0, 4)
    with pytest.raises(QuantValueError, match=r"batch 0 of data: input 'ids'.* want at least one element"):
        read([{"ids": np.ones((3, 0), np.int64), "past": feeds["past"]}], inputs)


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY damaged")
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "a.csv").write_text("1,2")
    wants = {"a.npy": "NumPy's signature", "o.npy": "an array of numbers or strings: no objects"}
    for name, want in wants.items():
        with pytest.raises(FileFormatError, match=rf"file '.*{name}'.*{want}"):
            read(tmp_path / name, IMAGE)
    with pytest.raises(QuantValueError, match=r"a\.csv': got a file that ends in '\.csv'"):
        read(tmp_path / "a.csv", IMAGE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CalibrationError, match=r"folder '.*empty': got no image, want files that end"):
        read(tmp_path / "empty", IMAGE)


BAD_IMAGES: dict[str, tuple[dict[str, Any], list[Input], str]] = {
    "two inputs": ({}, TEXT, "data: got a folder of images for a model with 2 inputs"),
    "no image": ({}, [Input("x", F32, ("N", 8))], "input 'x': got shape ('N', 8), want an input of four"),
    "open size": (
        {},
        [Input("x", F32, ("N", 3, "H", "W"))],
        "want a fixed height and width. Fix: give",
    ),
    "channels": ({}, [Input("x", F32, ("N", 4, 8, 8))], "want 3 channels for colour 'rgb' and layout NCHW"),
    "colour": ({"colour": "pink"}, IMAGE, "want 3 channels for colour 'pink'"),
    "layout": ({"layout": "HWCN"}, IMAGE, "images: got layout 'HWCN', fit 'crop'"),
    "mean": ({"mean": (0.1, 0.2)}, IMAGE, "mean: got [0.1, 0.2], want 3 numbers"),
    "std": ({"std": (0.0,)}, IMAGE, "std: got [0.0], want 3 numbers, std above 0"),
}


@pytest.mark.parametrize("options, inputs, message", BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_wrong_options_of_images(
    tmp_path: Path, options: dict[str, Any], inputs: list[Input], message: str
) -> None:
    save_image(tmp_path / "a.png", (6, 4), (1, 2, 3))
    with pytest.raises(QuantValueError, match=re.escape(message)):
        read(Images(tmp_path, **options), inputs)


@pytest.mark.parametrize("name", ["batch_size", "num_batches"])
def test_counts_are_positive(name: str) -> None:
    with pytest.raises(QuantValueError, match=f"{name}: got 0, want at least 1"):
        open_data(samples(1, 3, 4, 6), IMAGE, **{name: 0})


@pytest.mark.parametrize(
    "name, value, words",
    [("imagenet", (0 - 0.485) / 0.229, "[0.485"), ("inception", -1, "-1..1"), ("unit", 0, "0..1"),
     ("raw", 0, " = 0..255"), ("caffe", -103.939, "BGR")],
)  # fmt: skip
def test_presets_prepare_images_and_say_how(tmp_path: Path, name: str, value: float, words: str) -> None:
    save_image(tmp_path / "a.png", (6, 4), (0, 0, 0))
    images = Images.preset(tmp_path, name)
    (batch,) = read(images, IMAGE)
    assert batch["x"][0, 0, 0, 0] == pytest.approx(value, abs=1e-4)
    output = images.described(IMAGE)
    assert words in output and output.startswith("4x6 (the centre of") and output.endswith("NCHW")
    assert Images.preset(tmp_path, name, std=(2,)).std == (2,)
    with pytest.raises(QuantValueError, match="preset: got 'resnet', want one of imagenet, inception"):
        Images.preset(tmp_path, "resnet")


def test_a_model_that_reads_strings_is_quantized_from_arrays_of_them(tmp_path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        net (string[n] words, float[n, 64] x) => (float[n, 64] y) {
            known = ai.onnx.ml.LabelEncoder
                <keys_strings = ["a", "b"], values_floats = [1.0, 2.0], default_float = 0.0> (words)
            axes = Constant <value = int64[1] {1}> ()
            column = Unsqueeze (known, axes)
            product = MatMul (x, w)
            y = Add (product, column)
        }"""
    )
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    words, x = np.array(["a", "c", "b"]), weight[:3]
    np.savez(tmp_path / "data.npz", words=words, x=x)
    ways = ([{"words": words.astype(object), "x": x}], [{"words": words, "x": x}], tmp_path / "data.npz")
    ranges = [quantize(model, data, dynamic_ranges=False, progress=False).ranges for data in ways]
    assert ranges[0] and ranges[0] == ranges[1] == ranges[2]
    with pytest.raises(
        QuantValueError, match="batch 0 of data: input 'words': got dtype float32, want an array of"
    ):
        quantize(model, [{"words": x, "x": x}], progress=False)


def test_one_tensor_of_torch_is_an_array_of_samples(cnn, images):
    torch = pytest.importorskip("torch")
    same = [quantize(cnn, data, progress=False).ranges for data in (images, torch.from_numpy(images))]
    assert same[0] == same[1]


SCALE_INPUTS = [Input("f", F32, ("n", 4)), Input("k", F32, ())]


@pytest.mark.parametrize("scale", [np.float32(2), np.float32([2])])
def test_an_npz_file_may_have_one_number_for_all_batches(tmp_path: Path, scale: np.ndarray) -> None:
    np.savez(tmp_path / "t.npz", f=np.ones((5, 4), np.float32), k=scale)
    batches = list(open_data(tmp_path / "t.npz", SCALE_INPUTS, batch_size=3).batches)
    assert [(feeds["f"].shape, feeds["k"].shape) for feeds in batches] == [((3, 4), ()), ((2, 4), ())]
    assert all(feeds["k"] == 2 for feeds in batches)


def test_an_npz_file_may_have_a_number_for_each_sample(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", f=np.ones((3, 4), np.float32), k=np.float32([1, 2, 3]))
    batches = list(open_data(tmp_path / "t.npz", SCALE_INPUTS, batch_size=2).batches)
    assert [float(feeds["k"]) for feeds in batches] == [1, 2, 3]
    assert all(feeds["f"].shape == (1, 4) for feeds in batches)
