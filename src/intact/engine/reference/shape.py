"""Steps that move elements, of codes and of floats alike."""

from __future__ import annotations

import numpy as np

from intact import numerics
from intact.engine.arrays import check_rows, rest
from intact.engine.reference.run import Run, Runner, affine_of, spec_of
from intact.engine.steps import Concat, Gather, Pad, Reinterpret, Rescale, Reshape, Resize, Slice, Transpose


def _reshape(run: Run, step: Reshape) -> None:
    x = run.array(step.x)
    run.bind(step.y, x.reshape(run.shape_of(step.y, x.size)))


def _transpose(run: Run, step: Transpose) -> None:
    run.bind(step.y, np.transpose(run.array(step.x), step.perm))


def _slice(run: Run, step: Slice) -> None:
    x, shape = run.array(step.x), run.plan.tensors[step.y].shape
    for axis, (start, hop, dim) in enumerate(zip(step.starts, step.steps, shape, strict=True)):
        size = run.sizes.get(dim, rest(x.shape[axis], start, hop)) if isinstance(dim, str) else dim
        x = np.take(x, start + hop * np.arange(size), axis=axis)
    run.bind(step.y, x)


def _gather(run: Run, step: Gather) -> None:
    x, index = run.array(step.x), run.array(step.index)
    check_rows(index, x.shape[0], f"tensor '{step.index}'")
    run.bind(step.y, np.take(x, index, axis=0))


def _pad(run: Run, step: Pad) -> None:
    grid = run.grid(step.x)
    run.bind(
        step.y, np.pad(run.array(step.x), step.pads, constant_values=0 if grid is None else grid.zero_point)
    )


def _resize(run: Run, step: Resize) -> None:
    x = run.array(step.x)
    for axis, name in zip(step.axes, step.indices, strict=True):
        x = np.take(x, run.array(name), axis=axis)
    run.bind(step.y, x)


def _concat(run: Run, step: Concat) -> None:
    out = run.grid(step.y)
    if out is None:
        run.bind(step.y, np.concatenate([run.array(name) for name in step.xs], axis=step.axis))
        return
    parts = [
        numerics.rescale(run.array(name), affine_of(run.codes(name)), affine_of(out), spec_of(out))
        for name in step.xs
    ]
    run.write_codes(step.y, np.concatenate(parts, axis=step.axis))


def _reinterpret(run: Run, step: Reinterpret) -> None:
    run.write_codes(step.y, run.array(step.x).astype(np.int32))


def _rescale(run: Run, step: Rescale) -> None:
    grid, out = run.codes(step.x), run.codes(step.y)
    run.write_codes(
        step.y, numerics.rescale(run.array(step.x), affine_of(grid), affine_of(out), spec_of(out))
    )


RUNNERS: dict[str, Runner] = {
    "reshape": _reshape, "transpose": _transpose, "slice": _slice, "gather": _gather, "pad": _pad,
    "resize": _resize, "concat": _concat, "rescale": _rescale, "reinterpret": _reinterpret,
}  # fmt: skip
