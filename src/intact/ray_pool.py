"""Runs jobs on a Ray cluster. Only this file imports Ray."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pickle import PicklingError
from typing import Any, TypeVar
from uuid import uuid4

from intact._version import __version__
from intact.errors import IntactError, MissingExtraError, QuantValueError, UnsupportedError
from intact.limits import THREADS

Common = TypeVar("Common")
Item = TypeVar("Item")
Result = TypeVar("Result")

LOCAL = "local"
_AHEAD = 2  # jobs handed over for each that is under way: nobody waits for the next one
_PATIENCE = 10  # seconds
_COMPUTES = ("numpy", "onnxruntime", "torch")
"""Packages whose version may show in the bits of a result, beside our own."""


class RayPool:
    """Runs jobs on the machines of a Ray cluster; INTact is installed on each of them.

    What a job needs travels through Ray's object store, from this process to its workers. Results equal those
    of one process that uses as many threads, on machines of one kind: floats are computed by ONNX Runtime and
    torch, which choose their instructions by the processor. Workers with another version of INTact, NumPy,
    ONNX Runtime or torch are refused.

    Args:
        address: Of a cluster that this machine is part of: "auto", or "host:6379" of its head; "local":
            processes of this machine, that end with this one. A cluster that this process has joined already
            is taken whatever it is.
        workers: How many jobs at once; None: as many as the cluster has room for.
        threads: Threads, and CPUs of the cluster, of each job.
    Raises:
        MissingExtraError: Ray is not installed.
        QuantValueError: There is no cluster at `address`, or no CPU in it.
    """

    def __init__(self, address: str = "auto", *, workers: int | None = None, threads: int = 1) -> None:
        THREADS.check(threads, "threads", QuantValueError)
        if threads < 1 or (workers is not None and workers < 1):
            raise QuantValueError(
                "RayPool", f"{workers} workers of {threads} threads", "1 at least", "give positive numbers"
            )
        self._ray = _connect(address, None if workers is None else workers * threads)
        self.threads: int | None = threads
        room = int(self._ray.cluster_resources().get("CPU", 0)) // threads
        if not room:
            raise QuantValueError(
                f"ray '{address}'", "no room for one job", f"{threads} CPUs on one machine",
                "add machines to the cluster, or ask for fewer threads",
            )  # fmt: skip
        self.size = room if workers is None else min(workers, room)

    def map(
        self, work: Callable[[Common, Item], Result], common: Common, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Run the jobs on the cluster, as `intact.job_pool.JobPool.map` describes.

        Raises:
            UnsupportedError: A worker has other versions, or none of INTact, or it is gone.
        """
        ray = self._ray
        job = ray.remote(num_cpus=self.threads)(_job)
        try:
            common_reference = [ray.put(common)]  # in a list: a worker fetches it once for all of its jobs
        except (TypeError, PicklingError) as error:
            raise QuantValueError(
                "work for Ray", f"'{str(error).strip()[:300]}'",
                "a model, data and functions that can be pickled",
                "pass arrays or lists instead of open files and generators, or leave Ray out",
            ) from error  # fmt: skip
        name = uuid4().hex
        waiting: deque[Any] = deque()
        try:
            for item in items:
                if len(waiting) == _AHEAD * self.size:
                    yield self._result(waiting.popleft())
                waiting.append(job.remote(versions(), name, common_reference, work, item))
            while waiting:
                yield self._result(waiting.popleft())
        finally:  # also where the caller has had enough
            for reference in waiting:
                ray.cancel(reference, force=False)

    def _result(self, reference: Any) -> Any:
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except exceptions.RayTaskError as error:  # it holds the error of the job
            cause = error.cause
            if isinstance(cause, ModuleNotFoundError) and (cause.name or "").partition(".")[0] == "intact":
                raise _worker_error("no package 'intact'") from error
            raise cause from error
        except exceptions.RayError as error:
            lines = str(error).strip().splitlines()
            raise _worker_error(f"'{lines[0] if lines else type(error).__name__}'") from error


def versions() -> dict[str, str]:
    """Return the versions of the packages that compute results here, by name."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    versions = {"intact": __version__}
    for package in _COMPUTES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


_commons: dict[str, Any] = {}  # in a worker: what its last jobs had in common


def _job(
    expected: dict[str, str],
    name: str,
    common_reference: list[Any],
    work: Callable[[Any, Any], Any],
    item: Any,
) -> Any:
    """Run one job in a worker, after a check of its versions."""
    here = versions()
    if differing := [p for p in sorted(expected) if here.get(p) != expected[p]]:
        package = differing[0]
        raise _worker_error(f"{package} {here.get(package, 'missing')} (here {expected[package]})")
    if name not in _commons:
        import ray

        _commons.clear()
        _commons[name] = ray.get(common_reference[0])
    return work(_commons[name], item)


def _worker_error(got: str) -> IntactError:
    return UnsupportedError(
        "a worker of the Ray cluster", got, "workers that have what this process has, and stay",
        "install the same versions on every machine, and look into Ray's logs",
    )  # fmt: skip


def _connect(address: str, cpus: int | None) -> Any:
    """Return the module `ray`, after this process joined a cluster."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingExtraError.of(error.name or "ray", "ray", "work on other machines") from error
    if ray.is_initialized():
        return ray
    try:
        _require_listener(address)
        if address == LOCAL:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(
                num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
                configure_logging=False,
            )  # fmt: skip
        else:
            ray.init(
                address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False
            )
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        lines = str(error).strip().splitlines()
        raise QuantValueError(
            f"ray '{address}'", f"'{lines[0] if lines else type(error).__name__}'", "a Ray cluster",
            "start one on this machine (ray start), correct the address, or say 'local'",
        ) from error  # fmt: skip
    return ray


def _require_listener(address: str) -> None:
    """Check that a cluster may listen at `address`.

    Raises:
        ValueError: `address` has another form than those of `RayPool`.
        OSError: Nobody listens at "host:port". Ray itself would try for minutes, and end the process.
    """
    if address in (LOCAL, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not re.fullmatch(r"[\w.:\[\]-]+", host, re.ASCII) or not re.fullmatch("[0-9]{1,5}", port):
        raise ValueError("no address")
    socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
