"""Real images for the quickstart: scikit-learn's digits, a folder per class, or a packed CIFAR-10 file.

Every reader returns uint8 images and labels already split into train and test, the same split each time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intact.errors import FileFormatError, MissingExtraError, QuantValueError
from intact.limits import NPZ_BYTES
from intact.ptq.data import Npz, decode_image

FOLDER_SIZE = 32
MIN_PER_CLASS = 10
TEST_SHARE = 0.2
MOST_CLASSES = 2**16
DIGITS_TEST = 597  # of 1,797: the larger the test set, the finer the top-1 figures
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"}
CIFAR10_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

_KEYS = ("jpeg", "offsets", "labels")

Track = Callable[[Iterable[Any], str, int], Iterable[Any]]
"""Called as ``track(items, label, total)``: gives `items`, and shows how many have passed."""


def without_progress(items: Iterable[Any], label: str, total: int) -> Iterable[Any]:
    """Return `items`, and show no progress."""
    return items


@dataclass(frozen=True)
class LabelledImages:
    """A labelled data set.

    Attributes:
        name: What tables and reports call it.
        classes: Names of the classes, by label.
        train_x, test_x: uint8 [images, channels, height, width].
        train_y, test_y: int64 [images].
    """

    name: str
    classes: tuple[str, ...]
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load(source: Path | None, track: Track = without_progress) -> LabelledImages:
    """Load the images at `source`: None for the digits, a packed npz file, or a folder with one folder per
    class.

    Args:
        source: The file or folder. Of a packed data set either the train file, whose test file lies
            beside it, or the folder of both.
        track: Shows progress.

    Raises:
        FileFormatError: A file is damaged, is no image, or asks for more than `intact.limits` allows.
        QuantValueError: There is nothing at `source`, or too little to learn from.
        MissingExtraError: scikit-learn or Pillow is not installed.
    """
    if source is None:
        return digits()
    if source.is_dir():
        packed = sorted(source.glob("*train*.npz"))
        return packed_images(packed[0], track) if packed else class_folders(source, track)
    if source.is_file():
        return packed_images(source, track)
    raise QuantValueError(
        "data", f"'{source}', where there is nothing", "a folder or an npz file", "check the path"
    )


def digits() -> LabelledImages:
    """Load scikit-learn's 1,797 handwritten digits, 8x8, 16 grey levels; they come with its wheel."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError.of("scikit-learn", "quickstart", "the handwritten digits") from error
    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    # In the order of collection: most writers of the last third were not trained on, the honest split.
    train = slice(None, len(images) - DIGITS_TEST)
    test = slice(train.stop, None)
    labels = bunch.target.astype(np.int64)
    names = tuple(str(name) for name in bunch.target_names)
    return LabelledImages(
        "handwritten digits", names, images[train], labels[train], images[test], labels[test]
    )


def class_folders(root: Path, track: Track = without_progress) -> LabelledImages:
    """Load images in ``root/<class>/``, scaled to 32x32 RGB; every fifth image of a class is for testing."""
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    files = {f.name: _image_files(f) for f in folders}
    _check_folders(root, files)
    listed = [(path, label) for label, paths in enumerate(files.values()) for path in paths]
    pixels = np.stack([_decode(path, str(path)) for path, _ in track(listed, "reading images", len(listed))])
    labels = np.array([label for _, label in listed], np.int64)
    rank = np.concatenate([np.arange(len(paths)) for paths in files.values()])
    test = rank % round(1 / TEST_SHARE) == 0
    return LabelledImages(root.name, tuple(files), pixels[~test], labels[~test], pixels[test], labels[test])


def packed_images(train_file: Path, track: Track = without_progress) -> LabelledImages:
    """Load JPEGs laid end to end in an npz file: `jpeg` uint8, `offsets` int64 [n+1], `labels` uint8 [n].

    The test images lie beside `train_file`, in the file of the same name with "test" for "train".
    """
    test_file = train_file.with_name(train_file.name.replace("train", "test"))
    if test_file == train_file or not test_file.is_file():
        raise QuantValueError(
            f"data: '{train_file}'",
            "no test file beside it",
            "two files whose names differ in 'train' and 'test'",
            "name the train file, for example cifar10_train.npz, with cifar10_test.npz beside it",
        )
    train_x, train_y = _unpack(train_file, track)
    test_x, test_y = _unpack(test_file, track)
    count = int(max(train_y.max(), test_y.max())) + 1
    ten = count == len(CIFAR10_CLASSES) and "cifar10" in train_file.name
    names = tuple(CIFAR10_CLASSES) if ten else tuple(str(label) for label in range(count))
    name = train_file.stem.replace("train", "").strip("-_. ") or train_file.stem
    return LabelledImages(name, names, train_x, train_y, test_x, test_y)


def _image_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES)


def _check_folders(root: Path, files: dict[str, list[Path]]) -> None:
    if len(files) < 2:
        raise QuantValueError(
            f"data: '{root}'",
            f"{len(files)} folder{'' if len(files) == 1 else 's'} of images",
            "at least two, one per class",
            "lay the images out as <folder>/<class>/<image>",
        )
    for name, paths in files.items():
        if len(paths) < MIN_PER_CLASS:
            raise QuantValueError(
                f"data: class '{name}' in '{root}'",
                f"{len(paths)} images",
                f"at least {MIN_PER_CLASS}",
                "add images, or move that folder away",
            )


def _decode(source: Path | io.BytesIO, name: str, size: int | None = FOLDER_SIZE) -> np.ndarray:
    """Decode one image to uint8 [3, size, size]; as large as it is where `size` is None."""
    rgb = decode_image(source, name, "RGB", FileFormatError)
    if size is not None:
        rgb = rgb.resize((size, size), 2)  # bilinear
    return np.asarray(rgb, np.uint8).transpose(2, 0, 1)


def _unpack(path: Path, track: Track) -> tuple[np.ndarray, np.ndarray]:
    """Read images and labels of one packed file."""
    with Npz(path) as packed:
        if missing := [key for key in _KEYS if key not in packed.names]:
            raise FileFormatError(
                f"data: '{path}'", f"no array '{missing[0]}'", "an npz file with jpeg, offsets and labels",
                "name a packed file, or a folder",
            )  # fmt: skip
        jpeg, offsets, labels = (packed[key] for key in _KEYS)
    _check_packed(path, jpeg, offsets, labels)
    images: list[np.ndarray] = []
    for index in track(range(len(labels)), f"reading {path.name}", len(labels)):
        encoded = io.BytesIO(jpeg[offsets[index] : offsets[index + 1]].tobytes())
        images.append(_decode(encoded, f"data: '{path}', image {index}", size=None))
        NPZ_BYTES.check(len(labels) * images[0].nbytes, f"data: '{path}', {len(labels)} images")
        if images[index].shape != images[0].shape:
            raise FileFormatError(
                f"data: '{path}', image {index}",
                f"shape {images[index].shape}",
                f"{images[0].shape}, as the first",
                "pack images of one size",
            )
    return np.stack(images), labels.astype(np.int64)


def _check_packed(path: Path, jpeg: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    sound = (
        jpeg.dtype == np.uint8
        and jpeg.ndim == offsets.ndim == labels.ndim == 1
        and np.issubdtype(offsets.dtype, np.integer)
        and np.issubdtype(labels.dtype, np.integer)
        and len(offsets) == len(labels) + 1 > 1
        and offsets[0] >= 0
        and offsets[-1] <= len(jpeg)
        and bool((np.diff(offsets.astype(np.int64)) > 0).all())
        and int(labels.min()) >= 0
        and int(labels.max()) < MOST_CLASSES
    )
    if not sound:
        raise FileFormatError(
            f"data: '{path}'",
            f"jpeg {jpeg.dtype}{list(jpeg.shape)}, offsets {offsets.dtype}{list(offsets.shape)}, "
            f"labels {labels.dtype}{list(labels.shape)} that do not fit together",
            "jpeg uint8 [bytes], ascending offsets [n+1] into it, labels [n] from 0 to 65535",
            "pack the file again",
        )
