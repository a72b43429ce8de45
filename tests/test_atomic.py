"""Files appear whole or not at all: names, links, modes, devices, many writers, signals, several files."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from intact.atomic import check_target, replacing, together
from intact.errors import FileAccessError, FileFormatError
from intact.reading import read_bytes, reading

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and devices of POSIX")


@pytest.fixture(params=["as the system can", "by name"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with nameless files, as Linux has them, and without."""
    if request.param == "by name" and hasattr(os, "O_TMPFILE"):
        monkeypatch.delattr(os, "O_TMPFILE")


def write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def test_a_whole_file_takes_the_name_of_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "model.bin"
    target.write_text("old")
    with replacing(str(target)) as file:
        file.write(b"new")
        file.flush()
        assert target.read_text() == "old", "until the block ends"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file_and_no_debris(error: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "model.bin"
    target.write_text("old")
    with pytest.raises(error, match="half way"), replacing(target) as file:
        file.write(b"ne")
        raise error("half way")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@posix
def test_the_mode_is_that_of_the_old_file(tmp_path: Path) -> None:
    """A private file stays private, while it is written too; a new one is what the umask says."""
    target, plain = tmp_path / "private", tmp_path / "plain"
    target.touch(0o600)
    with replacing(target) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    target.chmod(0o666)
    write(target, "open")
    assert stat.S_IMODE(target.stat().st_mode) == 0o666, "although the umask says less"
    plain.touch()
    write(tmp_path / "new", "x")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode


@posix
def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    real, link, dangling = tmp_path / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_text("old")
    (tmp_path / "between").symlink_to("real")
    link.symlink_to("between")
    dangling.symlink_to("made")
    write(link, "new")
    write(dangling, "made")
    assert link.is_symlink() and real.read_text() == "new" and not real.is_symlink()
    assert dangling.is_symlink() and (tmp_path / "made").read_text() == "made"


@posix
def test_a_link_planted_at_the_new_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are not to be guessed; and where one is taken, nothing is opened."""
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".intact-guessed.tmp").symlink_to("precious")
    with pytest.raises(FileAccessError, match="exists"):
        write(tmp_path / "model", "new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "model").exists()


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write(pipe, "through")
    reader.join()
    assert got == [b"through"] and stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_device_is_written_to_and_a_full_one_named() -> None:
    with pytest.raises(FileAccessError, match=r"'/dev/full': got 'No space left on device'") as refused:
        write(Path("/dev/full"), "x")
    assert refused.value.errno == errno.ENOSPC and stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors as files, on Linux")
def test_a_file_that_has_lost_its_name_is_written_to(tmp_path: Path) -> None:
    with (tmp_path / "lost").open("w+b") as file:
        (tmp_path / "lost").unlink()
        write(Path(f"/proc/self/fd/{file.fileno()}"), "found")
        assert file.read() == b"found"
    assert not list(tmp_path.iterdir())


@posix
@pytest.mark.parametrize("name", ["", ".", "..", "/", "folder", "no/file", "loop", "a" * 300, "zero\0byte"])
def test_what_is_no_file_name_is_refused_at_once_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    for refuse in (check_target, lambda path: write(path, "x")):
        with pytest.raises(FileAccessError):
            refuse(Path(name))
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "loop"]


@posix
@pytest.mark.parametrize("name", [b"n" * 255, b"\xff\xfe.plan", "深".encode() * 85, b" ", b"-", b"a\nb"])
def test_every_name_that_the_system_takes_will_do(name: bytes, tmp_path: Path) -> None:
    target = tmp_path / os.fsdecode(name)
    try:
        target.touch()
    except OSError:
        pytest.skip("not of this file system")
    write(target, "first")
    target.unlink()
    write(target, "second")
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [name] and target.read_text() == "second"


@posix
def test_a_protected_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "kept"
    target.write_text("old")
    target.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: not (Path(path) == target and mode == os.W_OK))
    with pytest.raises(FileAccessError, match="write-protected"):
        write(target, "new")
    assert target.read_text() == "old"


def test_many_writers_of_one_name_do_not_tear_it(tmp_path: Path) -> None:
    """Four threads had one temporary between them: a quarter of all reads met a torn file."""
    target, errors, torn = tmp_path / "model", list[Exception](), 0
    write(target, "0" * 300_000)

    def save(digit: str) -> None:
        try:
            for _ in range(30):
                write(target, digit * 300_000)
        except Exception as error:
            errors.append(error)

    writers = [threading.Thread(target=save, args=(digit,)) for digit in "1234"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        text = target.read_text()
        torn += text != text[0] * 300_000
    assert (errors, torn) == ([], 0) and list(tmp_path.iterdir()) == [target]


KILLED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
from intact.atomic import replacing
if sys.argv[2] == "False":
    del os.O_TMPFILE
from intact.cli.error_handling import stop_on_sigterm
with stop_on_sigterm(), replacing(sys.argv[1]) as file:
    file.write(bytes(100_000))
    file.flush()
    print("half way", flush=True)
    sys.stdin.read()
"""


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_writer_leaves_the_old_file_alone(number: signal.Signals, tmp_path: Path) -> None:
    nameless, target = hasattr(os, "O_TMPFILE"), tmp_path / "model"
    target.write_text("old")
    run = [sys.executable, "-c", KILLED, str(target), str(nameless or sys.platform != "linux")]
    with subprocess.Popen(
        run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"half way\n"
        writer.send_signal(number)
        status = writer.wait(600)
    assert target.read_text() == "old"
    assert status == (143 if number == signal.SIGTERM else -number)
    if number != signal.SIGKILL or nameless:
        assert list(tmp_path.iterdir()) == [target]


def test_an_error_of_a_library_is_told_as_what_it_was(tmp_path: Path) -> None:
    """torch.save makes a RuntimeError of a full disk, and of a KeyboardInterrupt."""
    for failed, expected in (
        (OSError(28, "No space"), FileAccessError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ):
        with pytest.raises(expected), replacing(tmp_path / "model") as file:
            file.raw.failed = failed  # type: ignore[attr-defined]
            raise RuntimeError("unexpected pos 768 vs 662")
        with pytest.raises(expected), replacing(tmp_path / "model") as file:
            file.raw.failed = failed  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_other_errors_in_the_block_are_not_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="elsewhere"), replacing(tmp_path / "model"):
        raise ConnectionError("elsewhere")
    with pytest.raises(FileFormatError), replacing(tmp_path / "model"):
        raise FileFormatError("file", "noise", "a model", "mend it")


@posix
def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename that reached the disk before the data did would leave an empty file after a loss of power."""
    recorded, sync = list[tuple[str, list[str]]](), os.fsync

    def record_sync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        recorded.append((kind, [p.name for p in tmp_path.iterdir() if p.suffix != ".tmp"]))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record_sync)
    write(tmp_path / "model", "x")
    assert recorded == [("file", []), ("folder", ["model"])]


def test_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    with together():
        write(old, "changed")
        with together():
            write(new, "made")
        assert old.read_text() == "old" and not new.exists()
    assert (old.read_text(), new.read_text()) == ("changed", "made")
    new.unlink()
    with suppress(KeyError), together():
        write(old, "again")
        write(new, "again")
        raise KeyError
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "changed"}


def test_a_file_that_cannot_follow_takes_the_first_back(tmp_path: Path) -> None:
    """By then the first has its name: the old one comes back, and a new one goes."""
    old, new, late = tmp_path / "old", tmp_path / "new", tmp_path / "late"
    old.write_text("old")
    with pytest.raises(FileAccessError, match="late"), together():
        write(old, "changed")
        write(new, "made")
        write(late, "x")
        late.mkdir()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["late", "old"] and old.read_text() == "old"


def test_a_file_system_without_links_does_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    monkeypatch.setattr(os, "link", refuse)
    old, late = tmp_path / "old", tmp_path / "late"
    old.write_text("old")
    with pytest.raises(FileAccessError), together():
        write(old, "changed")
        write(late, "x")
        late.mkdir()
    late.rmdir()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "old"}
    with together():
        write(old, "changed")
        write(late, "x")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "changed", "late": "x"}


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"none': got 'No such file.*when it was read"):
        read_bytes(tmp_path / "none")
    with pytest.raises(FileFormatError, match="got a folder"):
        read_bytes(tmp_path)
    with pytest.raises(FileFormatError), reading(tmp_path):
        raise FileFormatError("file", "noise", "a model", "mend it")


@posix
def test_a_folder_that_another_program_has_locked_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt at the wrong moment left the lock with nobody, and the next save waited for ever."""
    import fcntl

    waited = list[float]()
    monkeypatch.setattr("time.sleep", waited.append)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with together():
            write(tmp_path / "a", "a")
            write(tmp_path / "b", "b")
    finally:
        os.close(descriptor)
    assert 0 < sum(waited) < 5 and (tmp_path / "b").read_text() == "b"
