"""Run data-parallel work: join the process group, split batches over processes, and merge statistics exactly.

`intact.torch.calibrate` and `intact.torch.finetune` call these; a script started by ``torchrun`` needs
nothing else. Histograms are integers and ends are exact, so the merged statistics, and with them the
scales, equal those of one process that saw all batches, bit for bit.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load as read_bytes
from safetensors.numpy import save as to_bytes
from torch import Tensor
from torch import distributed as dist
from torch.utils.data.distributed import DistributedSampler

from intact.calib import Histogram, Range
from intact.errors import CalibrationError, IntactError

Stats = Histogram | Range


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that work together: this one's `rank` among `size`."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """True in the one process that prints and writes files."""
        return self.rank == 0


def join() -> ProcessGroup:
    """Return the group of this process; under ``torchrun`` join it first where the script did not.

    The backend is NCCL where every process has a GPU, else Gloo.
    """
    if not dist.is_available():
        return ProcessGroup()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
            return ProcessGroup()
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(_leave)
    return ProcessGroup(dist.get_rank(), dist.get_world_size())


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def split_batches(
    data: Iterable[Any], group: ProcessGroup, limit: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield this process's batches of `data`, each with its number among those of all processes.

    Batch i belongs to process ``i % size``. A loader whose sampler is a `DistributedSampler` is split
    already, and is taken whole.

    Args:
        data: The same batches in every process, in the same order; or a loader with this one's share.
        group: The processes.
        limit: Stop after this many batches of all processes together.
    """
    mine = is_split(data)
    for position, batch in enumerate(data):
        number = position * group.size + group.rank if mine else position
        if limit is not None and number >= limit:
            return
        if mine or number % group.size == group.rank:
            yield number, batch
        if limit is not None and not mine and number + 1 >= limit:
            return


def is_split(data: Iterable[Any]) -> bool:
    """Return whether `data` is a loader that already gives each process its own share."""
    return isinstance(getattr(data, "sampler", None), DistributedSampler)


def share_failure(error: Exception | None, group: ProcessGroup) -> None:
    """Raise `error`. In the other processes, raise an error that says which process failed.

    Every process calls this after work that each did alone, so that no process waits for one that failed.
    """
    if group.size > 1:
        failed = sum_over(np.eye(group.size)[group.rank] * (error is not None), group)
        ranks = np.flatnonzero(failed).tolist()
        if ranks and error is None:
            raise CalibrationError(
                f"process {group.rank} of {group.size}",
                f"an error in processes {ranks}",
                "all processes to finish",
                "see the message of the first of them",
            )
    if error is not None:
        raise error


class RankPool:
    """Distributes jobs over the processes of torchrun. All ask for the same jobs, and get all results.

    A result is bytes. Jobs are done in rounds, one in each process.

    Args:
        group: The processes.
    """

    threads = None

    def __init__(self, group: ProcessGroup) -> None:
        self._group, self.size = group, group.size

    def map(self, work: Callable[[Any, Any], Any], common: Any, items: Iterable[Any]) -> Iterator[Any]:
        """See `intact.job_pool.JobPool.map`; an error in one process ends all of them, see
        `share_failure`.
        """
        waiting = list(items)
        for start in range(0, len(waiting), self.size):
            round = waiting[start : start + self.size]
            result, failure = b"-", None  # no item is left for this process
            try:
                if self._group.rank < len(round):
                    result = work(common, round[self._group.rank])
            except Exception as error:
                failure = error
            share_failure(failure, self._group)
            yield from _gather(result)[: len(round)]


def require_same(where: str, number: int, group: ProcessGroup) -> None:
    """Check that all processes have the same `number` here, before they rely on it.

    Raises:
        CalibrationError: They differ.
    """
    numbers = sum_over(np.eye(group.size)[group.rank] * number, group)
    if len(set(numbers.tolist())) > 1:
        raise CalibrationError(
            where, f"{numbers.astype(int).tolist()} in the processes", "the same in all of them",
            "let every process see the same files and arguments",
        )  # fmt: skip


def sum_over(values: NDArray[np.float64], group: ProcessGroup) -> NDArray[np.float64]:
    """Return the sum over the processes; exact where all but one of them have a 0."""
    if group.size == 1:
        return values
    tensor = torch.from_numpy(np.array(values, np.float64)).to(_device())
    dist.all_reduce(tensor)
    return tensor.cpu().numpy()


def mean_over(tensors: Iterable[Tensor], weight: float, group: ProcessGroup) -> None:
    """Replace each tensor, in place, by its mean over the processes, each of which counts with its weight."""
    if group.size == 1:
        return
    total = sum_over(np.array([weight]), group)[0]
    for tensor in tensors:
        weighted = tensor.detach().to(_device(), torch.float64) * (weight / total)
        dist.all_reduce(weighted)
        tensor.copy_(weighted)


def merge_statistics(stats: dict[str, Stats], group: ProcessGroup) -> None:
    """Merge the statistics of all processes into those of each, in place.

    Args:
        stats: By tensor name; the same names and kinds in every process. One that saw no batch of a
            tensor contributes nothing to it.
        group: The processes.
    Raises:
        CalibrationError: Two statistics of one tensor do not fit.
    """
    if group.size == 1:
        return
    arrays = {
        f"{index}.{key}": np.ascontiguousarray(np.atleast_1d(array))
        for index, tensor_stats in enumerate(stats.values())
        for key, array in _to_arrays(tensor_stats).items()
    }
    parts = [read_bytes(blob) for blob in _gather(to_bytes(arrays))]
    for index, (name, mine) in enumerate(stats.items()):
        merged = type(mine)(mine.axis)  # type: ignore[arg-type]  # of its own kind
        for part in parts:
            prefix = f"{index}."
            arrays_of_part = {k[len(prefix) :]: v for k, v in part.items() if k.startswith(prefix)}
            try:
                merged.merge(_from_arrays(type(mine), arrays_of_part))  # type: ignore[arg-type]
            except IntactError as error:
                raise error.at(name) from None
        stats[name] = merged


def _to_arrays(stats: Stats) -> dict[str, NDArray]:
    axis = () if stats.axis is None else np.atleast_1d(stats.axis)
    shape = np.shape(stats.amax)
    return {**stats.to_arrays(), "_axis": np.array([*axis], np.int64), "_shape": np.array([*shape], np.int64)}


def _from_arrays(kind: type[Stats], arrays: dict[str, NDArray]) -> Stats:
    axes, shape = tuple(arrays.pop("_axis").tolist()), tuple(arrays.pop("_shape").tolist())
    axis: Any = None if not axes else axes[0] if len(axes) == 1 else axes
    if not arrays["count"].any():
        return kind(axis)
    if kind is Range:
        arrays = {key: array.reshape(shape) for key, array in arrays.items()}
    return kind.from_arrays(arrays, axis)


def _gather(blob: bytes) -> list[bytes]:
    """Return the bytes of every process, by rank."""
    mine = torch.frombuffer(bytearray(blob), dtype=torch.uint8)
    sizes = [torch.zeros(1, dtype=torch.int64, device=_device()) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(blob)], device=_device()))
    longest = max(int(size) for size in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8, device=_device())
    padded[: len(blob)] = mine
    gathered = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(gathered, padded)
    return [part[: int(size)].cpu().numpy().tobytes() for part, size in zip(gathered, sizes, strict=True)]


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
