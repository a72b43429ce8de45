"""Finds, decodes, resizes and normalizes the images of a folder, as batches for a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from intact.errors import CalibrationError, QuantValueError
from intact.limits import IMAGE_PIXELS
from intact.ptq.data.image_decoding import decode_image
from intact.ptq.data.model_inputs import Feeds, Input

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, per channel of values in [0, 1]: what most published networks expect."""

PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {"mean": MEAN, "std": DEVIATION},
    "inception": {"mean": (0.5,), "std": (0.5,)},
    "unit": {"mean": (0.0,), "std": (1.0,)},
    "raw": {"mean": (0.0,), "std": (1 / 255,)},
    "caffe": {"mean": (103.939 / 255, 116.779 / 255, 123.68 / 255), "std": (1 / 255,), "colour": "bgr"},
}
"""Normalizations of published networks: mean and deviation of ImageNet, -1 to 1, 0 to 1, 0 to 255, BGR."""

_MODES = {"rgb": "RGB", "bgr": "RGB", "grey": "L"}


@dataclass(frozen=True)
class Images:
    """Describes a folder of images and how a model expects them.

    Attributes:
        folder: Searched with its subfolders; the order is that of the paths.
        size: (height, width) in pixels; None: the model's, which must then be fixed.
        fit: "crop": the shorter side is resized to 8/7 of the size, and the centre is cut out, as for
            ImageNet (nothing is resized that has the size already); "stretch": resized to the size as is.
        mean, std: Subtracted from and divided into values in [0, 1], one per channel; None: ImageNet's for
            three channels, 0 and 1 for one. A model with integer inputs gets the pixels as they are.
        layout: "NCHW" or "NHWC"; None: where the model's shape has 1 or 3 channels.
        colour: "rgb", "bgr" or "grey"; None: by the number of channels.
    """

    folder: str | os.PathLike[str]
    size: tuple[int, int] | None = None
    fit: Literal["crop", "stretch"] = "crop"
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    layout: Literal["NCHW", "NHWC"] | None = None
    colour: Literal["rgb", "bgr", "grey"] | None = None

    @classmethod
    def preset(cls, folder: str | os.PathLike[str], name: str, **changes: Any) -> Images:
        """Return the images as one of `PRESETS` has them, but for `changes`.

        Raises:
            QuantValueError: There is no such preset.
        """
        if name not in PRESETS:
            raise QuantValueError(
                "preset", f"{name!r:.60}", f"one of {', '.join(PRESETS)}", "choose one, or say mean and std"
            )
        return cls(folder, **(PRESETS[name] | changes))

    def described(self, inputs: Sequence[Input]) -> str:
        """Describe how each image is prepared for a model with `inputs`.

        Raises:
            QuantValueError: As for `batches`.
        """
        return str(_Preprocessing.of(self, inputs))

    def paths(self) -> list[Path]:
        """Return the image files, in order.

        Raises:
            CalibrationError: There is none.
        """
        root = Path(self.folder)
        paths = sorted(p for p in root.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
        if not paths:
            raise CalibrationError(
                f"folder '{self.folder}'",
                "no image",
                f"files that end in {', '.join(sorted(SUFFIXES))}",
                "give the folder of the images; arrays go into .npy or .npz files",
            )
        return paths

    def batches(self, inputs: Sequence[Input], batch_size: int) -> Iterator[Feeds]:
        """Yield the images as feeds of the model's only input.

        Args:
            inputs: Of the model.
            batch_size: Images of a feed; the last one may have fewer.
        Raises:
            QuantValueError: The model's input is no image of a known size; names it.
            CalibrationError: A file is damaged, or no image of 8 or 16 bits per channel; names it.
            MissingExtraError: Pillow is not installed.
        """
        form = _Preprocessing.of(self, inputs)
        paths = self.paths()
        for start in range(0, len(paths), batch_size):
            yield {form.name: np.stack([form.read(path) for path in paths[start : start + batch_size]])}


@dataclass(frozen=True)
class _Preprocessing:
    """Combines the options of `Images` with the model's input."""

    name: str
    dtype: np.dtype[Any]
    size: tuple[int, int]
    fit: str
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    layout: str
    colour: str

    @classmethod
    def of(cls, images: Images, inputs: Sequence[Input]) -> _Preprocessing:
        if len(inputs) != 1:
            raise QuantValueError(
                "data",
                f"a folder of images for a model with {len(inputs)} inputs",
                "one input",
                "give an iterable of dicts by input name, or .npz files",
            )
        model_input = inputs[0]
        shape = model_input.shape if model_input.shape is not None else (None,) * 4
        if len(shape) != 4:
            raise _shape_error(model_input, "an input of four dimensions, NCHW or NHWC")
        if images.layout not in (None, "NCHW", "NHWC") or images.fit not in ("crop", "stretch"):
            raise QuantValueError(
                "images", f"layout {images.layout!r}, fit {images.fit!r}", "NCHW or NHWC, crop or stretch",
                "choose one of these",
            )  # fmt: skip
        layout = images.layout or ("NHWC" if shape[1] not in (1, 3) and shape[3] in (1, 3) else "NCHW")
        channels, *sides = (shape[1], *shape[2:]) if layout == "NCHW" else (shape[3], *shape[1:3])
        colour = images.colour or ("grey" if channels == 1 else "rgb")
        planes = 1 if colour == "grey" else 3
        if colour not in _MODES or (isinstance(channels, int) and channels != planes):
            raise _shape_error(model_input, f"{planes} channels for colour {colour!r} and layout {layout}")
        size = images.size or (sides[0], sides[1])
        if not all(isinstance(n, int) and n > 0 for n in size):
            raise QuantValueError(
                f"input '{model_input.name}'",
                f"shape {model_input.shape}",
                "a fixed height and width",
                "give the size in pixels, Images(size=(height, width)) or --size 224",
            )
        height, width = int(size[0]), int(size[1])  # type: ignore[arg-type]
        IMAGE_PIXELS.check(height * width, f"input '{model_input.name}', size of images", QuantValueError)
        mean = images.mean if images.mean is not None else MEAN if planes == 3 else (0.0,)
        std = images.std if images.std is not None else DEVIATION if planes == 3 else (1.0,)
        return cls(
            model_input.name, model_input.dtype, (height, width), images.fit,
            _per_channel("mean", mean, planes), _per_channel("std", std, planes), layout, colour,
        )  # fmt: skip

    def __str__(self) -> str:
        height, width = self.size
        fit = (
            f"the centre of {round(height * 8 / 7)}x{round(width * 8 / 7)}"
            if self.fit == "crop"
            else "stretched"
        )
        if self.dtype.kind != "f":
            values = f"pixels 0..255 as {self.dtype}"
        else:
            values = f"(pixel / 255 - {_figures(self.mean)}) / {_figures(self.std)}{self._ends()}"
        return f"{height}x{width} ({fit}), {self.colour.upper()}, {values}, {self.layout}"

    def _ends(self) -> str:
        """Describe the values of black and white, if all channels have the same."""
        black, white = -self.mean / self.std, (1 - self.mean) / self.std
        alike = np.ptp(black) < 1e-6 and np.ptp(white) < 1e-6
        return f" = {black.flat[0] + 0.0:.4g}..{white.flat[0]:.4g}" if alike else ""

    def read(self, path: Path) -> NDArray:
        """Read one image as [C, H, W] or [H, W, C], in the dtype of the model's input."""
        where = f"file '{path}'"
        resized = self._resize(decode_image(path, where, _MODES[self.colour]), where)
        pixels = np.asarray(resized).reshape(*self.size, -1)
        if self.colour == "bgr":
            pixels = pixels[..., ::-1]
        if self.dtype.kind == "f":
            pixels = ((pixels.astype(np.float32) / 255 - self.mean) / self.std).astype(self.dtype)
        else:
            pixels = pixels.astype(self.dtype)
        return np.ascontiguousarray(pixels if self.layout == "NHWC" else pixels.transpose(2, 0, 1))

    def _resize(self, image: Any, where: str) -> Any:
        height, width = self.size
        if image.size == (width, height):
            return image
        if self.fit == "stretch":
            return image.resize((width, height), 2)  # bilinear
        ratio = max(height * 8 / 7 / image.height, width * 8 / 7 / image.width)
        across, down = round(image.width * ratio), round(image.height * ratio)
        left, top = (across - width) // 2, (down - height) // 2
        # An image of 1 x 60000 pixels becomes one of gigabytes.
        IMAGE_PIXELS.check(across * down, f"{where}: resized to {across} x {down}", CalibrationError)
        return image.resize((across, down), 2).crop((left, top, left + width, top + height))


def _per_channel(name: str, values: Sequence[float], planes: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(values, np.float32).reshape(-1)
    except (TypeError, ValueError):
        array = np.empty(0, np.float32)
    sound = array.size in (1, planes) and bool(np.isfinite(array).all())
    if not sound or (name == "std" and not (array > 0).all()):
        raise QuantValueError(
            name,
            str(_as_list(values))[:60],
            f"{planes} numbers, std above 0",
            f"one for each channel, as {name}=(...) of Images or --{name}",
        )
    return array


def _figures(values: NDArray[np.float32]) -> str:
    shown = [f"{value:.4g}" for value in values.flat]
    return shown[0] if len(set(shown)) == 1 else f"[{' '.join(shown)}]"


def _as_list(values: Any) -> Any:
    return values if isinstance(values, str) or not isinstance(values, Sequence) else list(values)


def _shape_error(model_input: Input, want: str) -> QuantValueError:
    return QuantValueError(
        f"input '{model_input.name}'",
        f"shape {model_input.shape}",
        want,
        "say layout and colour of the images (--layout, --colour), or give arrays in .npy files",
    )
