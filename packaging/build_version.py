"""The version of a build: that of src/intact/_version.py, with a digest of what it is built from.

Two wheels of one version are then one wheel, and pip replaces a wheel where sources have changed. The digest
is left out of a release: at the tag of its version, or in a source distribution that was made there.
"""

import hashlib
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("CMakeLists.txt", "pyproject.toml", "README.md", "csrc", "include", "packaging", "src")
BUILT_FOLDERS = {"__pycache__", "intact/include", "intact/lib"}
BUILT_ENDINGS = {".so", ".dylib", ".pyd", ".pyc"}


def digest(root):
    """Return eight hexadecimal digits over the names and contents of all sources below `root`."""
    total = hashlib.sha256()
    for source in SOURCES:
        path = root / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.relative_to(root).as_posix()
            is_built = file.suffix in BUILT_ENDINGS or any(f"/{folder}/" in name for folder in BUILT_FOLDERS)
            if file.is_file() and not is_built:
                total.update(name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:8]


def is_release(root, version):
    """Return whether `root` is a source distribution of a version, or a clean checkout of its tag."""
    if not (root / ".git").exists():
        return ".dev" not in version
    commands = (["git", "describe", "--tags", "--exact-match"], ["git", "status", "--porcelain"])
    tag, changes = (
        subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.strip()
        for command in commands
    )
    return tag == f"v{version}" and not changes


def version_of(root):
    """Return the version of what is built in `root`."""
    text = (root / "src/intact/_version.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]
    return version if is_release(root, version) else f"{version}+{digest(root)}"


def dynamic_metadata(field, settings):
    """Return the version, as scikit-build-core asks its providers for it."""
    return version_of(ROOT)
