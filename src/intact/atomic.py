"""Writes files that appear whole or not at all, alone or several together. Why so:
docs/decisions/0017-atomic-saving.md.

    with replacing(path) as file:         # a binary file, seekable, in the folder of `path`
        file.write(data)                  # `path` is as it was
                                          # on disk, and under its name

A reader sees the old file or the new one. An error, a signal that Python handles, and on Linux even the end
of the process leave the old one and nothing else. Many may save to one name at once: the last one stays.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any

from intact.errors import FileAccessError, IntactError, require_path

_UNSYNCABLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Error numbers of file systems that do not support fsync on directories."""
_together: ContextVar[list[_New] | None] = ContextVar("_together", default=None)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BufferedWriter]:
    """Open a file for writing that takes the name `path` when the block ends without an error.

    A link is followed and stays; the file behind it is replaced. The mode of the old file is kept. A device
    or a pipe is written to when the block ends, as `cp` would.

    Raises:
        FileAccessError: The path is a folder, write-protected, or the system refuses something; names it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "model.txt")) as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "model.txt").read_text()
    'whole'
    """
    new, waiting = _New(path), _together.get()
    try:
        with _access_errors(path):
            new.open()
        with new.writing_errors():
            yield new.file
        with _access_errors(path):
            new.finish()
        if waiting is None:
            _appear([new])
        else:
            waiting.append(new)
    finally:
        if waiting is None or new not in waiting:
            _surely(new.drop)


@contextmanager
def together() -> Iterator[None]:
    """Give all files that `replacing` writes in this block their names when it ends: all or none.

    An error leaves all old files. No system renames two files in one step: a reader between the steps, or
    a loss of power there, may meet a new file beside an old one.
    """
    if _together.get() is not None:
        yield  # part of what is already being done together
        return
    files: list[_New] = []
    token = _together.set(files)
    try:
        yield
        _appear(sorted(files, key=lambda new: new.direct))  # what goes to a device cannot be taken back
    finally:
        _together.reset(token)
        for new in files:
            _surely(new.drop)


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse early the targets that `replacing` would refuse after the work: missing folders, folders, no
    permission.

    Raises:
        FileAccessError: Names the path.
    """
    new = _New(path)
    folder = new.target.parent
    with _access_errors(path):
        missing = not new.direct and not folder.is_dir()
    if missing:
        raise FileAccessError(
            f"'{path}'", f"no folder '{folder}'", "a folder that exists", "make it, or choose another path"
        )


class _Raw(FileIO):
    """A raw file that remembers the first error, because libraries replace write errors with their own."""

    failed: BaseException | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BaseException as error:
            self.failed = self.failed or error
            raise


class _New:
    """A new file that will take the place of another one.

    Attributes:
        path: The name as it was given, for errors.
        target: The name behind all links.
        before: What is there now; None: nothing.
        direct: It is no ordinary file: it is written to, not replaced.
        file: What is written to, after `open`.
    """

    file: BufferedWriter

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require_path(path)
        self.path = path
        with _access_errors(path):
            self.target, self.before, self.direct = _resolve_target(Path(path))
        if self.before is not None and not os.access(self.target, os.W_OK):
            raise FileAccessError.of(path, PermissionError(errno.EACCES, "write-protected"), "written")
        folder = Path(tempfile.gettempdir()) if self.direct else self.target.parent
        # Names that nobody guesses, and no longer than any system allows, however long the target's is.
        self._name, self._old_name = (folder / f".intact-{secrets.token_hex(8)}.tmp" for _ in range(2))
        self._raw: _Raw | None = None
        self._nameless = self._begun = False

    def open(self) -> None:
        """Create the file: without a name where the system has that, else under one that is new."""
        mode = 0o666 if self.before is None else stat.S_IMODE(self.before.st_mode) & 0o777
        descriptor, self._nameless = _create(self._name, 0o600 if self.direct else mode)
        try:
            self._raw = _Raw(descriptor, "wb")
        except BaseException:
            os.close(descriptor)
            raise
        self.file = BufferedWriter(self._raw)

    @contextmanager
    def writing_errors(self) -> Iterator[None]:
        """Raise errors of writing as `FileAccessError`, however they come, and all others unchanged."""
        try:
            yield
        except Exception as error:
            failed = self._raw.failed if self._raw is not None else None
            if isinstance(failed, OSError):
                raise FileAccessError.of(self.path, failed, "written") from error
            if failed is not None and failed is not error:
                raise failed from error
            raise

    def finish(self) -> None:
        """Flush everything to disk, with the mode of the old file."""
        assert self._raw is not None
        if self._raw.failed is not None:
            raise self._raw.failed
        self.file.flush()
        if self.direct:
            return
        if self.before is not None:
            _make_alike(self._raw.fileno(), self.before)
        _sync(self._raw.fileno())
        if not self._nameless:
            self.file.close()  # Windows renames no open file

    def keep_old(self) -> None:
        """Keep the old file under another name, so that `undo` can bring it back."""
        if self.before is None or self.direct:
            return
        try:
            os.link(self.target, self._old_name)
        except OSError:  # a file system without links: it is away for a moment
            self._begun = True
            self.target.replace(self._old_name)

    def appear(self) -> None:
        """Link the file to its name, or write it to its target."""
        assert self._raw is not None
        self._begun = True
        if self.direct:
            _copy(self._raw.fileno(), self.target)
        elif not self._nameless:
            self._name.replace(self.target)
        elif self.before is not None or not _link(self._raw.fileno(), self.target):
            _link(self._raw.fileno(), self._name)
            self._name.replace(self.target)

    def undo(self) -> None:
        """Bring the old file back, where `appear` began."""
        if self._begun and not self.direct:
            with suppress(OSError):
                if self.before is None:
                    self.target.unlink()
                else:
                    self._old_name.replace(self.target)

    def drop(self) -> None:
        """Close and remove everything but the named file; a second call does nothing."""
        try:
            if self._raw is not None:
                with suppress(OSError):
                    self._raw.close()  # not the buffer's way, which would write once more
        finally:
            for name in (self._name, self._old_name):
                with suppress(OSError):
                    name.unlink()


def _appear(files: Sequence[_New]) -> None:
    """Give finished files their names, in order; an error takes all of them back."""
    folders = dict.fromkeys(new.target.parent for new in files if not new.direct)
    with ExitStack() as locks:
        if len(files) > 1:
            for folder in sorted(folders):
                locks.enter_context(_Lock(folder))
        try:
            for new in files if len(files) > 1 else ():
                with _access_errors(new.path):
                    new.keep_old()
            for new in files:
                with _access_errors(new.path):
                    new.appear()
        except BaseException:
            for new in reversed(files if len(files) > 1 else ()):
                _surely(new.undo)
            raise
    for folder in folders:
        _sync_folder(folder)


def _surely(do: Callable[[], None]) -> None:
    """Clean up although somebody presses Ctrl-C just then."""
    try:
        do()
    except BaseException:
        do()
        raise


def _resolve_target(path: Path) -> tuple[Path, os.stat_result | None, bool]:
    """Resolve all links of a target: return its name, its status, and whether it is written to in place."""
    try:
        before = path.stat()  # first of all: the system refuses links that others have laid in shared folders
    except FileNotFoundError:
        before = None
    except ValueError as error:  # a zero byte
        raise OSError(errno.EINVAL, str(error)) from error
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder")
    target = Path(os.path.realpath(path))
    if before is None or stat.S_ISREG(before.st_mode):
        # What is open and has no name any more is reached as /dev/stdout, and not by what that links to.
        # Nothing else is asked of the target: another writer may be replacing it just now.
        nameless = before is not None and path.is_symlink() and not os.path.lexists(target)
        return (path if nameless else target), before, nameless
    return path, before, True


def _create(name: Path, mode: int) -> tuple[int, bool]:
    """Return a descriptor of a new file to read and write; whether it has no name yet, and so leaves no
    trace.
    """
    common = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        with suppress(OSError):  # a file system without; or what the next attempt says too
            return os.open(name.parent, common | os.O_TMPFILE, mode), True
    exclusive = os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.open(name, common | exclusive, mode), False


def _link(descriptor: int, name: Path) -> bool:
    """Link a nameless file to a name; return False where the name is taken."""
    try:
        # With a folder given, Python calls linkat, which alone follows the link in /proc.
        os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
    except FileExistsError:
        return False
    return True


def _make_alike(descriptor: int, before: os.stat_result) -> None:
    """Copy the owner of the old file, where the system allows it, and its mode, which never grows for a
    group.
    """
    mode, now = stat.S_IMODE(before.st_mode) & 0o777, os.fstat(descriptor)
    if hasattr(os, "fchown") and (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except PermissionError:
            mode &= 0o707 if before.st_gid != now.st_gid else 0o777
    if hasattr(os, "fchmod") and stat.S_IMODE(now.st_mode) != mode:
        os.fchmod(descriptor, mode)


def _copy(descriptor: int, target: Path) -> None:
    """Write a whole file to a device or a pipe."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    flags = os.O_WRONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    with (
        FileIO(os.dup(descriptor), "rb") as source,
        FileIO(target, "wb", opener=lambda name, _: os.open(name, flags)) as out,
        BufferedWriter(out) as buffered,
    ):
        shutil.copyfileobj(source, buffered, 2**20)


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSYNCABLE:
            raise


def _sync_folder(folder: Path) -> None:
    """Flush the new name to disk, where the system can; the file is whole either way."""
    if hasattr(os, "O_DIRECTORY"):  # Windows has no such thing
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


class _Lock:
    """Keeps other processes from renaming several files in this folder meanwhile, as far as the system can.

    Whoever holds the lock has it for the time of a few calls. It is not waited for longer than that: another
    program may lock the folder for reasons of its own. An object lets go of it whenever it ends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._descriptor = folder, -1

    def __enter__(self) -> None:
        with suppress(ImportError, OSError):  # Windows; no locks here, a folder that cannot be read
            import fcntl

            self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for _ in range(200):
                with suppress(BlockingIOError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(0.005)

    def __exit__(self, *_: object) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = __exit__


@contextmanager
def _access_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except IntactError:
        raise
    except OSError as error:
        raise FileAccessError.of(path, error, "written") from error
