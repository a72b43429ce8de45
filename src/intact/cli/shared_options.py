"""Arguments and options that several verbs share, and the parsing of their text."""

from __future__ import annotations

import re
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from intact.atomic import check_target
from intact.errors import QuantValueError
from intact.limits import THREADS
from intact.reading import require_regular

if TYPE_CHECKING:
    from intact.calib import Calibration
    from intact.job_pool import JobPool
    from intact.ptq import Images


def check_output_path(out: Path | None) -> Path | None:
    """Refuse a path that cannot be written before the work is done, not after it."""
    if out is not None:
        check_target(out)
    return out


def check_regular_files(files: Any) -> Any:
    """Refuse files that cannot be read twice, such as pipes and devices."""
    for file in [files] if isinstance(files, Path) else files or ():
        require_regular(file)
    return files


def check_thread_count(threads: int | None) -> int | None:
    """Refuse more threads than the limit before a file is read."""
    if threads is not None:
        THREADS.check(threads, "--threads", QuantValueError)
    return threads


def check_seconds(number: float) -> float:
    """Refuse NaN, which passes every bound, and very long times.

    Args:
        number: Seconds.
    Raises:
        QuantValueError: It is out of bounds.
    """
    if not 0 <= number <= LONGEST:
        raise QuantValueError("seconds", str(number), f"0 to {LONGEST:,}", "give seconds, such as 2.5")
    return number


def check_optional_seconds(number: float | None) -> float | None:
    """Check seconds, which may be left out."""
    return None if number is None else check_seconds(number)


LONGEST = 10**6
"""Seconds: eleven days."""

COUNT: dict[str, int] = {"min": 1, "max": 10**6}
"""Of options that say how often something is done, or how large a dimension is."""

READ: dict[str, Any] = {"exists": True, "dir_okay": False, "callback": check_regular_files}
"""Of arguments and options that name a file to read."""

ModelFile = Annotated[Path, typer.Argument(help="An ONNX file.", **READ)]
Runnable = Annotated[Path, typer.Argument(help="A Q/DQ file, or a plan.", **READ)]
Out = Annotated[Path, typer.Option("--out", "-o", help="The file to write.", callback=check_output_path)]
CalibOut = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The .calib file to write.", callback=check_output_path),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ProfileName = Annotated[
    str, typer.Option("--profile", help="The engine to place for: intact, tensorrt, onnxruntime or openvino.")
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include", help="Pattern of node names or operator types: quantize these only. Repeatable."
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        help="Pattern of node names or operator types to keep in float; 'A -> B': all between. Repeatable.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="A folder of images, an .npy or .npz file, or a .py file with load_data(), which is run.",
        exists=True,
    ),
]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Samples in one run of the model. Default: 8.")]
NumBatches = Annotated[int | None, typer.Option(min=1, help="Use no more batches than this.")]
Size = Annotated[
    str | None, typer.Option(help="Of images: 224, or height x width as 224x320. Default: the model's.")
]
Mean = Annotated[
    str | None, typer.Option(help="Subtracted from images in [0, 1]: 0.5 or r,g,b. Default: ImageNet's.")
]
Std = Annotated[str | None, typer.Option(help="Divides images after that. Default: ImageNet's.")]
Fit = Annotated[str | None, typer.Option(help="Of images: crop (the centre) or stretch. Default: crop.")]
Layout = Annotated[str | None, typer.Option(help="Of images: NCHW or NHWC. Default: by the model's shape.")]
Colour = Annotated[str | None, typer.Option(help="Of images: rgb, bgr or grey. Default: by the channels.")]
Preset = Annotated[
    str | None,
    typer.Option(
        help="How images are prepared: imagenet, inception (-1 to 1), unit (0 to 1), raw (0 to 255) or caffe "
        "(BGR); --mean, --std and --colour change it. Default: imagenet."
    ),
]
Percentile = Annotated[
    float | None,
    typer.Option(min=0, max=100, help="For the method percentile, in percent. Default: 99.99."),
]
Opset = Annotated[
    int | None, typer.Option(help="Of the file. Default: the model's, or what its formats need.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, callback=check_thread_count, help="Default: as many as this process may use."),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Share the work with the Ray cluster that this machine is in (auto, or host:6379), or with "
        "processes here (local). The result is the same. Needs intact-quant[ray] on all machines.",
        metavar="ADDRESS",
    ),
]
Progress = Annotated[bool, typer.Option(help="Show progress bars.")]


def data_of(
    data: Path | None, size: str | None, mean: str | None, std: str | None, fit: str | None,
    layout: str | None, colour: str | None, preset: str | None = None,
) -> Images | Path:  # fmt: skip
    """Return the calibration data that the options name, as `intact.ptq` takes it.

    Raises:
        QuantValueError: There is no --data, an option cannot be read, or images are described and are none.
    """
    from intact.ptq import Images

    if data is None:
        raise QuantValueError(
            "--data", "nothing", "a folder of images, or an .npy, .npz or .py file",
            "say where the calibration data are",
        )  # fmt: skip
    options: dict[str, Any] = {
        "size": height_width("--size", size), "mean": numbers("--mean", mean), "std": numbers("--std", std),
        "fit": fit, "layout": layout, "colour": colour,
    }  # fmt: skip
    image_options = {name: value for name, value in options.items() if value is not None}
    if data.is_dir():
        return (
            Images.preset(data, preset, **image_options)
            if preset is not None
            else Images(data, **image_options)
        )
    if preset is not None or image_options:
        raise QuantValueError(
            f"--{next(iter(image_options), 'preset')}", f"the option for '{data}'", "a folder of images",
            "prepare arrays before they are written, or in load_data()",
        )  # fmt: skip
    return data


def pool_of(ray: str | None) -> JobPool | None:
    """Return the pool that --ray names; None without that option."""
    if ray is None:
        return None
    from intact.ray_pool import RayPool

    return RayPool(ray)


def images_of(calibration: Calibration) -> list[str]:
    """Return how images were prepared for these statistics, each way once; empty for other data."""
    preparations = (record.get("images") for record in calibration.provenance)
    return list(dict.fromkeys(preparation for preparation in preparations if isinstance(preparation, str)))


def preparation_note(images: str) -> str:
    """Return the line that says how images were prepared, and how to change that."""
    return f"images: {images}; as in training? else --preset, --mean, --std, --fit"


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Return the numbers of "0.485,0.456,0.406"; None for None.

    Raises:
        QuantValueError: The text is no such list; names the option.
    """
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = (float("nan"),)
    if not all(map(isfinite, values)):
        raise QuantValueError(
            option, f"{text!r:.60}", "numbers between commas", "write it as 0.5 or as 0.485,0.456,0.406"
        )
    return values


def height_width(option: str, text: str | None) -> tuple[int, int] | None:
    """Return (height, width) of "224" or "224x320"; None for None.

    Raises:
        QuantValueError: The text is no size; names the option.
    """
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(re.fullmatch(r" *0*[1-9][0-9]{0,8} *", part, re.ASCII) for part in parts):
        raise QuantValueError(option, f"{text!r:.60}", "one size or two", "write it as 224 or as 224x320")
    return int(parts[0]), int(parts[-1])


SHAPES = "Shapes by input: images:1x3x224x224,mask:1x128."


def read_shapes(text: str, option: str = "--shapes") -> dict[str, tuple[int, ...]]:
    """Parse an option such as `SHAPES`.

    Args:
        text: "images:1x3x224x224,mask:1x128".
        option: Its name, for errors.
    Returns:
        The sizes by input name.
    Raises:
        QuantValueError: An entry is no name with sizes.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in filter(None, text.split(",")):
        name, _, sizes = entry.rpartition(":")
        if not name or not all(re.fullmatch("[0-9]{1,9}", size) for size in sizes.split("x")):
            raise QuantValueError(option, repr(entry), "input:1x3x224x224", "write name, colon, sizes")
        shapes[name] = tuple(map(int, sizes.split("x")))
    return shapes
