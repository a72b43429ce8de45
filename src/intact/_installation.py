"""Checks that this package's folder is its own, because another project on PyPI is called `intact`, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from intact.errors import DISTRIBUTION, ClashingInstallationError, UnsupportedError

PACKAGE_FOLDER = Path(__file__).parent
"""Folder that holds the files of this package."""

_OURS = ("intact/numerics/", "../../intact/numerics/")
"""Paths that the file list of every INTact installation contains, under either distribution name."""


def require_own_folder(package: Path = PACKAGE_FOLDER) -> None:
    """Refuse to run where the distribution `intact` of somebody else is installed into the same folder.

    The files of both are mixed then, and which ones are left depends on the order of installation.

    Args:
        package: The folder of this package.
    Raises:
        ClashingInstallationError: It is; says how to repair it.
    """
    for metadata in _installations(package.parent):
        if not _is_ours(package.parent / metadata):
            raise ClashingInstallationError(
                str(package), f"files of another project, too ('{metadata}': PyPI's 'intact' is not INTact)",
                f"those of {DISTRIBUTION} alone",
                f"run: pip uninstall -y intact {DISTRIBUTION}, then: pip install {DISTRIBUTION}",
            )  # fmt: skip


def c_library(package: Path = PACKAGE_FOLDER) -> Path:
    """Return the path of the shared C library.

    Args:
        package: The folder of this package.
    Raises:
        UnsupportedError: There is none.
    """
    return _find_library(package, "libintact.so.0", "libintact.0.dylib", "intact.dll")


def onnxruntime_library(package: Path = PACKAGE_FOLDER) -> Path:
    """Return the path of the execution provider for ONNX Runtime, which lies beside the C library.

    Args:
        package: The folder of this package.
    Raises:
        UnsupportedError: There is none.
    """
    return _find_library(
        package, "libintact_onnxruntime.so", "libintact_onnxruntime.dylib", "intact_onnxruntime.dll"
    )


def _find_library(package: Path, *names: str) -> Path:
    """Return the one of the libraries, by their names on each system, that the package holds."""
    for path in (package / "lib" / name for name in names):
        if path.is_file():
            return path
    raise _no_library(package)


def c_headers(package: Path = PACKAGE_FOLDER) -> Path:
    """Return the folder of the C library's header.

    Args:
        package: The folder of this package.
    Raises:
        UnsupportedError: There is none.
    """
    if not (package / "include" / "intact.h").is_file():
        raise _no_library(package)
    return package / "include"


def config(arguments: Sequence[str] | None = None, package: Path = PACKAGE_FOLDER) -> int:
    """Print what a C compiler needs to use the C library, as `intact-config` does.

    Args:
        arguments: Some of --cflags, --libs, --includedir, --library and --onnxruntime; None: those of the
            command line.
        package: The folder of this package.
    Returns:
        The exit status: 2 where an argument is none of these, 1 where there is no library.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    answers: dict[str, Callable[[], str]] = {
        "--cflags": lambda: f"-I{c_headers(package)}",
        "--libs": lambda: f"{c_library(package)} -Wl,-rpath,{c_library(package).parent}",
        "--includedir": lambda: str(c_headers(package)),
        "--library": lambda: str(c_library(package)),
        "--onnxruntime": lambda: str(onnxruntime_library(package)),
    }
    if not words or not answers.keys() >= set(words):
        print(f"usage: intact-config {' '.join(f'[{word}]' for word in answers)}", file=sys.stderr)
        return 2
    try:
        print(" ".join(answers[word]() for word in words))
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _no_library(package: Path) -> UnsupportedError:
    return UnsupportedError(
        str(package), "an installation without the C library", "lib/libintact and include/intact.h",
        "build it: cmake --build, cmake --install, as CMakeLists.txt says",
    )  # fmt: skip


def _installations(folder: Path) -> list[str]:
    """Return the metadata of a distribution called `intact` in a folder of packages."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:  # in a zip file, for example
        return []
    return sorted(
        name for name in names
        if name.lower().startswith("intact-") and name.endswith((".dist-info", ".egg-info"))
    )  # fmt: skip


def _is_ours(metadata: Path) -> bool:
    """Return whether the files are those of INTact, which had that name before it was published."""
    for name in ("RECORD", "installed-files.txt", "SOURCES.txt"):
        try:
            lines = (metadata / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        return any(line.startswith(_OURS) for line in lines)
    return False
