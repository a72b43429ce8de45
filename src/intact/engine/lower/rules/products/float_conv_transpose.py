"""Transposed convolutions of floats; of volumes one over planes for each phase of the strides in depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from intact.engine.lower.base.builder import NoMatch, PlanBuilder
from intact.engine.lower.rules.moves.stack_planes import (
    VolumeWindow,
    as_planes,
    as_volumes,
    stack_window,
    volume_window,
)
from intact.engine.steps import Concat, FloatConvTranspose, Reshape, Slice, Step
from intact.engine.steps.base.window import Pair
from intact.graph import Node, ops
from intact.numerics import Phase, phases


def write_float_conv_transpose_of_volumes(
    builder: PlanBuilder, node: Node, weight: NDArray[np.float32], bias: str
) -> None:
    """Write a ConvTranspose over three axes.

    Args:
        weight: [out, in / groups, d, h, w].
        bias: The constant that holds the starts; "" for 0.
    Raises:
        NoMatch: Its windows leave something out in depth, or it has groups and windows that overlap there.
    """
    op, step_names = ops.ConvTranspose.of(node), (node.name or "", (node.name or "",))
    window = volume_window(node, op, weight.shape[2:], rows=False)
    more, *padding = op.output_padding or (0, 0, 0)
    x = builder.real(node.inputs[0])
    depth = builder.tensors[x].shape[2]
    if not isinstance(depth, int):
        raise NoMatch("the depth of its volumes is not known")
    every = phases(window.kernel, window.stride, window.dilation, window.pads[0])
    output_depth = (
        (depth - 1) * window.stride + (window.kernel - 1) * window.dilation + 1 + more - sum(window.pads)
    )
    count = -(-output_depth // window.stride)
    if output_depth < 1 or not all(item.taps for item in every):
        raise NoMatch("its windows leave something out in depth")
    y = builder.write_plain(node.outputs[0], "float32")
    planes, before = as_planes(builder, x, *step_names)
    maker = _Maker(builder, node, window, (planes, depth, count), (padding[0], padding[1]), op.group)
    alike = len({item.window for item in every}) == 1 and op.group == 1
    parts = [maker.steps(together, weight, bias, y) for together in ([every] if alike else zip(every))]
    volumes, cut = y, list[Step]()
    if count * window.stride != output_depth:  # the last planes of some phases are not there
        shape = builder.tensors[y].shape
        volumes = builder.scratch(f"{y}.all", "float32", (*shape[:2], count * window.stride, *shape[3:]))
        cut = [Slice(*step_names, volumes, y, (0,) * 5, (1,) * 5)]
    target, behind = as_volumes(builder, volumes, *step_names)
    joined, join = parts[0][0], list[Step]()
    if len(parts) > 1:
        number, out, *plane = builder.tensors[joined].shape
        assert isinstance(out, int)
        joined = builder.scratch(f"{y}.joined", "float32", (number, out * len(parts), *plane))
        join = [Concat(*step_names, tuple(name for name, _ in parts), joined, 1)]
    steps = [item for _, some in parts for item in some]
    for step in (*before, *steps, *join, Reshape(*step_names, joined, target), *behind, *cut):
        builder.add(step, node)


class _Maker:
    """Builds the steps for the planes of one phase, or of several that read the same planes."""

    def __init__(
        self, builder: PlanBuilder, node: Node, window: VolumeWindow, read: tuple[str, int, int],
        padding: Pair, groups: int,
    ) -> None:  # fmt: skip
        self._builder, self._node, self._window = builder, node, window
        self._read, self._padding, self._groups = read, padding, groups

    def steps(
        self, together: Sequence[Phase], weight: NDArray[np.float32], bias: str, y: str
    ) -> tuple[str, list[Step]]:
        """Make the output planes of these phases, channels behind channels, and the steps for them."""
        builder, phase, (planes, depth, count) = self._builder, together[0], self._read
        step_names, key = (self._node.name or "", (self._node.name or "",)), f"phase{phase.first}"
        before = -phase.origin
        behind = phase.origin + count + (len(phase.taps) - 1) * phase.dilation - depth
        if min(before, behind) < 0:
            raise NoMatch("its pads take planes away")
        over = replace(
            self._window, kernel=len(phase.taps), stride=1, dilation=phase.dilation, pads=(before, behind)
        )
        if self._groups > 1 and not over.alone:
            raise NoMatch("it has groups, and its windows overlap in depth")
        image, stack = stack_window(builder, planes, depth, over, *step_names)
        filters = np.concatenate([over.filters(weight[:, :, phase.taps]) for phase in together])
        source = self._node.inputs[1]
        w = builder.hold(f"{source.name if source is not None else ''}.{key}", filters)
        starts = bias
        if bias and len(together) > 1:
            starts = builder.hold(f"{bias}.each", np.tile(builder.arrays[bias], len(together)))
        number, _, *_ = builder.tensors[image].shape
        shape = builder.tensors[y].shape
        output = builder.scratch(f"{y}.{key}", "float32", (number, len(filters), *shape[3:]))
        geometry = over.over
        step = FloatConvTranspose(
            *step_names,
            image,
            output,
            w,
            starts,
            geometry.strides,
            geometry.dilations,
            geometry.pads,
            self._padding,
            self._groups,
        )
        return output, [*stack, step]
