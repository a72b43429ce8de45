from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from intact.errors import FileFormatError, IntactError, QuantValueError
from intact.torch.quickstart import data

CLASSES = ("cat", "dog")


def write_folder(root: Path, per_class: int = data.MIN_PER_CLASS) -> Path:
    for label, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True)
        for index in range(per_class):
            pixels = np.full((9, 7), 40 * label + index, np.uint8)
            Image.fromarray(pixels).save(root / name / f"{index:02d}.png")
    return root


def pack_images(count: int, size: int = 5) -> dict[str, np.ndarray]:
    files = []
    for index in range(count):
        out = io.BytesIO()
        Image.fromarray(np.full((size, size, 3), 20 * index, np.uint8)).save(out, "JPEG")
        files.append(out.getvalue())
    return {
        "jpeg": np.frombuffer(b"".join(files), np.uint8),
        "offsets": np.cumsum([0, *map(len, files)]),
        "labels": (np.arange(count) % 2).astype(np.uint8),
    }


def write_packed(folder: Path, **changes: np.ndarray) -> Path:
    np.savez(folder / "set_test.npz", **pack_images(4))
    np.savez(folder / "set_train.npz", **{**pack_images(6), **changes})
    return folder / "set_train.npz"


def test_the_digits_come_with_their_dependency_and_split_the_same_each_time() -> None:
    first, second = data.load(None), data.load(None)
    assert first.train_x.shape == (1200, 1, 8, 8) and first.test_x.shape == (597, 1, 8, 8)
    assert first.train_x.dtype == np.uint8 and first.train_x.max() == 255
    np.testing.assert_array_equal(first.test_x, second.test_x)
    assert set(first.test_y) == set(range(10)) and first.classes[7] == "7"


def test_a_folder_per_class_keeps_every_fifth_image_for_testing(tmp_path: Path) -> None:
    images = data.load(write_folder(tmp_path / "pets", per_class=11))
    assert images.name == "pets" and images.classes == CLASSES
    assert images.train_x.shape == (16, 3, 32, 32) and images.test_x.shape == (6, 3, 32, 32)
    np.testing.assert_array_equal(images.test_x[:, 0, 0, 0], [0, 5, 10, 40, 45, 50])
    np.testing.assert_array_equal(images.test_y, [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("as_folder", [False, True], ids=["train-file", "folder-of-both"])
def test_a_packed_file_and_its_neighbour(tmp_path: Path, as_folder: bool) -> None:
    file = write_packed(tmp_path)
    images = data.load(tmp_path if as_folder else file)
    assert images.name == "set" and images.classes == ("0", "1")
    assert images.train_x.shape == (6, 3, 5, 5) and images.test_x.shape == (4, 3, 5, 5)
    np.testing.assert_allclose(images.train_x[:, 0, 2, 2], 20 * np.arange(6), atol=2)  # JPEG is lossy
    np.testing.assert_array_equal(images.train_y, [0, 1, 0, 1, 0, 1])


@pytest.mark.shared
def test_the_packed_cifar10(shared_folder: Path) -> None:
    pixels, labels = data._unpack(shared_folder / "data" / "cifar10_test.npz", data.without_progress)
    assert pixels.shape == (10_000, 3, 32, 32)
    np.testing.assert_array_equal(np.bincount(labels), np.full(10, 1000))


def remove_a_class(root: Path) -> None:
    for file in (root / "dog").iterdir():
        file.unlink()
    (root / "dog").rmdir()


def starve_a_class(root: Path) -> None:
    (root / "dog" / "00.png").unlink()


def spoil_an_image(root: Path) -> None:
    (root / "dog" / "03.png").write_bytes(b"\x89PNG and then nothing of the kind")


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (remove_a_class, QuantValueError, r"^data: '.*pets': got 1 folder of images, want at least two"),
        (starve_a_class, QuantValueError, r"^data: class 'dog' in '.*': got 9 images, want at least 10"),
        (
            spoil_an_image,
            FileFormatError,
            r"03\.png: got .*want an image that Pillow can read\. Fix: remove or replace the file$",
        ),
    ],
    ids=["one-class", "too-few", "no-image"],
)
def test_a_bad_folder_is_named(tmp_path: Path, damage, error: type[IntactError], message: str) -> None:
    root = write_folder(tmp_path / "pets")
    damage(root)
    with pytest.raises(error, match=message):
        data.load(root)


def test_an_empty_folder_and_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(QuantValueError, match="got 0 folders of images"):
        data.load(tmp_path)
    with pytest.raises(QuantValueError, match="where there is nothing, want a folder or an npz file"):
        data.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.arange(3)},
        {"offsets": np.array([0, 5, 4, 6, 7, 8, 9])},
        {"offsets": np.array([0, 1, 2, 3, 4, 5, 10**9])},
        {"jpeg": np.zeros(10, np.float32)},
        {"labels": np.zeros(6, np.float64)},
        {"labels": np.full(6, -1)},
    ],
    ids=["too-short", "descending", "beyond-the-end", "float-bytes", "float-labels", "negative-label"],
)
def test_arrays_that_do_not_fit_together(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    with pytest.raises(FileFormatError, match=r"set_train\.npz': got jpeg .* that do not fit together, want"):
        data.load(write_packed(tmp_path, **changes))


def test_a_packed_image_that_does_not_decode_is_numbered(tmp_path: Path) -> None:
    spoiled = pack_images(6)
    spoiled["jpeg"] = spoiled["jpeg"].copy()
    spoiled["jpeg"][spoiled["offsets"][2] : spoiled["offsets"][3]] = 0
    with pytest.raises(FileFormatError, match=r"set_train\.npz', image 2: got "):
        data.load(write_packed(tmp_path, **spoiled))


def test_packed_images_of_two_sizes(tmp_path: Path) -> None:
    small, large = pack_images(3, size=5), pack_images(3, size=6)
    mixed = {
        "jpeg": np.concatenate([small["jpeg"], large["jpeg"]]),
        "offsets": np.concatenate([small["offsets"], large["offsets"][1:] + len(small["jpeg"])]),
    }
    with pytest.raises(FileFormatError, match=r"image 3: got shape \(3, 6, 6\), want \(3, 5, 5\)"):
        data.load(write_packed(tmp_path, **mixed))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"text"], ids=["empty", "cut-zip", "text"])
def test_a_file_that_is_no_npz(tmp_path: Path, content: bytes) -> None:
    write_packed(tmp_path)
    (tmp_path / "set_train.npz").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"want NumPy's \.npz format"):
        data.load(tmp_path / "set_train.npz")


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no objects"):
        data.load(write_packed(tmp_path, labels=np.array([{}] * 6, dtype=object)))


def test_a_packed_file_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "set_train.npz", **pack_images(4))
    with pytest.raises(QuantValueError, match="got no test file beside it"):
        data.load(tmp_path / "set_train.npz")
