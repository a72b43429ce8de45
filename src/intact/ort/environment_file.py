"""Lets all programs of a Python environment run on the engine: one .pth file, which `disable` removes."""

from __future__ import annotations

import site
import sysconfig
from pathlib import Path

from intact.atomic import replacing
from intact.errors import FileAccessError

NAME = "intact-ort.pth"

LINE = (
    "import os, sys; "
    "'off' in os.environ.get('INTACT_ORT', '') or sys.meta_path.insert(0, type('IntactOrtHook', (), "
    "{'find_spec': classmethod(lambda hook, name, path=None, target=None: "
    "None if name != 'onnxruntime' else (sys.meta_path.remove(hook), "
    "exec('try:\\n import intact.ort as o; o.install()\\nexcept Exception: pass', {}), "
    "__import__('importlib.util').util.find_spec(name))[-1])}))\n"
)
"""Code that Python runs at its start. It imports INTact when a program imports onnxruntime, not before.

Python ignores the file where its line fails; where INTact is gone, onnxruntime is what it was.
"""


def path_of_environment(user: bool = False) -> Path:
    """Return the path of the file; `user`: in the folder of the user's own packages."""
    folder = site.getusersitepackages() if user else sysconfig.get_paths()["purelib"]
    return Path(folder) / NAME


def enable(user: bool = False) -> Path:
    """Write the file; return its path.

    Raises:
        FileAccessError: The system refuses it.
    """
    path = path_of_environment(user)
    if user:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileAccessError.of(path, error, "written") from error
    with replacing(path) as file:
        file.write(LINE.encode())
    return path


def disable(user: bool = False) -> Path | None:
    """Remove the file; return its path, None where there was none.

    Raises:
        FileAccessError: The system refuses it.
    """
    path = path_of_environment(user)
    try:
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileAccessError.of(path, error, "written") from error
    return path
