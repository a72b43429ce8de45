"""`ResultCache`: plans and records of models in a folder that processes share, with a bound."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from intact._version import __version__
from intact.atomic import replacing
from intact.errors import FileFormatError, IntactError

FORMAT = 1
_PLAN, _RECORD, _LOCK, _UPDATE = ".plan", ".json", ".lock", ".update"
_MOST_RECORD = 1 << 20
_POLL_SECONDS, _MOST_POLLS = 0.01, 500


@dataclass
class ModelRecord:
    """Holds what is remembered of a model.

    Attributes:
        file: The path of the model; "" where the program gave bytes.
        program: The program that ran it last.
        state: "watching", "trying", "int8" or "float".
        why: Why it stays in float, or what is waited for; "" in int8.
        help: What would change that.
        candidate: How it was quantized.
        metric: What compared outputs.
        decibels: Of the worst output.
        agreement: The least share of equal largest scores; None where no output holds scores.
        speedup: ONNX Runtime's time divided by the engine's.
        guard_speedup: The same in the program's own runs, the median of guarded ones; None: too few.
        inputs: Different inputs that were seen before it was quantized.
        known_inputs: Checksums of the inputs of a program that repeats them: others are answered in float.
        in_float: Layers in float, and why.
        logits: Outputs that a linear layer gives: they may be scores.
        levels: The mean square of each output in the runs that were watched, and its name.
        infinite_inputs: Inputs that have had NaN or infinities in float, such as masks.
        has_undefined_runs: Whether float gave NaN for inputs of equal values: these are answered in float.
        ruled_out: Candidates that missed the gate before the program ended, each with the reason.
        gate: The policy that they missed.
        readers: Models of the program that read its outputs: these have to be closer to float then.
        runs, engine_runs: All runs of programs that have ended, and those that the engine answered.
        declined_runs: Runs whose inputs the engine cannot take, after the swap.
        errors: Errors of the engine, which ONNX Runtime answered.
        last_error: The last one.
        guard_runs: Runs that were computed in float, too.
        runs_until_engine: Runs before the swap.
        tries: Processes that have quantized it without success.
        is_rejected: A guard has gone back to float.
        updated: Seconds since 1970.
    """

    file: str = ""
    program: str = ""
    state: str = "watching"
    why: str = ""
    help: str = ""
    candidate: str = ""
    metric: str = "decibels"
    decibels: float | None = None
    agreement: float | None = None
    speedup: float | None = None
    guard_speedup: float | None = None
    inputs: int = 0
    known_inputs: list[str] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)
    gate: str = ""
    readers: list[str] = field(default_factory=list)
    in_float: list[str] = field(default_factory=list)
    logits: list[str] = field(default_factory=list)
    levels: list[str] = field(default_factory=list)
    infinite_inputs: list[str] = field(default_factory=list)
    has_undefined_runs: bool = False
    runs: int = 0
    engine_runs: int = 0
    declined_runs: int = 0
    errors: int = 0
    last_error: str = ""
    guard_runs: int = 0
    runs_until_engine: int = 0
    tries: int = 0
    is_rejected: bool = False
    updated: float = 0.0


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "bool": (bool,), "float": (int, float), "list[str]": (list,),
    "float | None": (int, float, type(None)),
}  # fmt: skip
COUNTS = ("runs", "engine_runs", "declined_runs", "errors", "guard_runs")
"""Fields that sum up over processes."""


class ResultCache:
    """The folder of plans and records.

    Every file appears whole or not at all. Whatever the system refuses is taken for an empty cache.

    Args:
        folder: Where it is; made when it is first written to, for the user alone.
        most_bytes: Its bound; what was used longest ago goes first.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder, self._most_bytes = folder, most_bytes

    def key(self, digest: str, threads: int | None, metric: str) -> str:
        """Return the name of a model's files: its content, this version, this machine's instructions."""
        return f"{digest[:40]}-{_machine_hash()}-{threads or 0}{'' if metric == 'decibels' else '-m'}"

    def has_files(self, digest: str) -> bool:
        """Return whether there is anything of a model, of any version and machine."""
        try:
            return any(path.name.startswith(digest[:40]) for path in self.folder.iterdir())
        except OSError:
            return False

    def plan_path(self, key: str) -> Path:
        """Return where the plan of a model lies."""
        return self.folder / f"{key}{_PLAN}"

    def read(self, key: str) -> ModelRecord | None:
        """Return the record of a model; None where there is none that can be read."""
        return _read_record(self.folder / f"{key}{_RECORD}")

    def records(self) -> list[ModelRecord]:
        """Return all records, the newest first."""
        paths = sorted(self.folder.glob(f"*{_RECORD}")) if self.folder.is_dir() else []
        records = [record for path in paths if (record := _read_record(path)) is not None]
        return sorted(records, key=lambda record: -record.updated)

    def update(self, key: str, change: Callable[[ModelRecord | None], ModelRecord]) -> str:
        """Write the record that `change` makes of the one that is there; return why the system refuses it.

        Processes that do so at once come one after the other, so that no count is lost.

        Args:
            key: The model's.
            change: Takes the record, None where there is none that can be read.

        Returns:
            "" where it was written.
        """
        try:
            self.prepare()
            with self._turn(key):
                record = change(self.read(key))
                record.updated = time.time()
                with replacing(self.folder / f"{key}{_RECORD}") as file:
                    file.write(json.dumps({"format": FORMAT, **asdict(record)}, indent=1).encode())
        except (OSError, IntactError) as error:
            return str(error)
        return ""

    def prepare(self) -> None:
        """Make the folder.

        Raises:
            OSError: The system refuses it.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove_plan(self, key: str) -> None:
        """Remove the plan of a model. Processes that have it keep it."""
        with suppress(OSError):
            self.plan_path(key).unlink()

    def touch(self, key: str) -> None:
        """Note that a plan is in use, for `trim`."""
        with suppress(OSError):
            os.utime(self.plan_path(key))

    def trim(self, keep: str) -> None:
        """Remove plans that were used longest ago until the rest fits the bound; never that of `keep`."""
        with suppress(OSError):
            plans = [(path.stat(), path) for path in self.folder.glob(f"*{_PLAN}")]
            total = sum(status.st_size for status, _ in plans)
            for status, path in sorted(plans, key=lambda item: item[0].st_mtime):
                if total <= self._most_bytes:
                    return
                if path.stem == keep:
                    continue
                path.unlink()
                path.with_suffix(_RECORD).unlink(missing_ok=True)
                total -= status.st_size

    @contextmanager
    def lock(self, key: str) -> Iterator[bool]:
        """Hold the right to quantize a model; gives whether this process has it.

        It ends with the process. Where the system has no locks, everybody has it: the last result stays.
        """
        descriptor: int | None = -1
        try:
            descriptor = self._lock_file(f"{key}{_LOCK}")
            yield descriptor is not None
        finally:
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)

    @contextmanager
    def _turn(self, key: str) -> Iterator[None]:
        """Wait until no other process reads and writes a record, but not for one that hangs."""
        descriptor = self._lock_file(f"{key}{_UPDATE}")
        for _ in range(_MOST_POLLS):
            if descriptor is not None:
                break
            time.sleep(_POLL_SECONDS)
            descriptor = self._lock_file(f"{key}{_UPDATE}")
        try:
            yield
        finally:
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)

    def _lock_file(self, name: str) -> int | None:
        """Return a descriptor that holds the lock; -1: there are no locks; None: another process has it."""
        try:
            import fcntl
        except ImportError:
            return -1
        try:
            self.prepare()
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.folder / name, flags, 0o600)
        except OSError:
            return -1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            pass
        return descriptor


def _read_record(path: Path) -> ModelRecord | None:
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_MOST_RECORD))
        return _check_record(values)
    except (OSError, ValueError, RecursionError, FileFormatError):
        return None


def _check_record(values: Any) -> ModelRecord:
    """Return the record that JSON holds.

    Raises:
        FileFormatError: It is none of this format.
    """
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise FileFormatError("record", "another format", f"format {FORMAT}", "remove the file")
    arguments: dict[str, Any] = {}
    for entry in fields(ModelRecord):
        value = values.get(entry.name, None)
        if entry.name not in values:
            continue
        kinds = _KINDS[str(entry.type)]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise FileFormatError(
                "record", f"{entry.name} of another kind", str(entry.type), "remove the file"
            )
        arguments[entry.name] = [str(item) for item in value] if isinstance(value, list) else value
    return ModelRecord(**arguments)


def _machine_hash() -> str:
    """Return what results depend on besides the model: this version, and the instructions of this machine."""
    import hashlib

    from intact.kernels import cpu_features

    features = sorted(name for name, is_there in cpu_features().items() if is_there)
    text = f"{__version__} {features}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
