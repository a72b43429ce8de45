"""Run a module on NumPy arrays, for callers that do not import torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.graph import NamedPair, QuantizerCall
from intact.torch.models.quantizer_calls import (
    StableSorts,
    intercept_quantizers,
    module_at,
    path_of,
    same_arguments,
)
from intact.torch.private_torch import pytree

__all__ = ["Runner", "as_array"]


@dataclass
class _Call:
    """Records one call of a quantizer.

    `args` keep its tensors alive; `x` and `y` are copies of input and output.
    """

    module: nn.Module
    args: tuple[Any, ...]
    x: NDArray[np.float32]
    y: NDArray[np.float32]


class Runner:
    """Runs `model`, in evaluation mode, on arrays: its inputs in order, whatever their names.

    Args:
        model: Any module, or a fake-quantized one for `trace`.
        pairs: The Q/DQ pairs that the model's file has for its quantizers.
    Raises:
        QuantValueError: `model` is no module.
    """

    def __init__(self, model: nn.Module, pairs: Sequence[NamedPair] = ()) -> None:
        if not isinstance(model, nn.Module):
            raise QuantValueError("module", f"a {type(model).__name__}", "a torch.nn.Module", "return one")
        self._model, self.pairs = model.eval(), tuple(pairs)

    def __call__(self, feeds: Mapping[str, NDArray]) -> list[NDArray]:
        """Return the outputs, in the model's order."""
        with torch.no_grad():
            outputs = self._model(*(torch.from_numpy(np.array(array)) for array in feeds.values()))
        return [as_array(leaf) for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor)]

    def trace(
        self, feeds: Mapping[str, NDArray], replacements: Mapping[str, NDArray] | None = None
    ) -> tuple[list[NDArray], list[QuantizerCall]]:
        """Run once, and record the input and output of every quantizer.

        Args:
            feeds: The inputs by name, in the model's order.
            replacements: What a quantizer returns instead of its own output, by the name of its pair's
                floats. So each layer can be compared by itself.
        Returns:
            The outputs, and the calls in their order.
        """
        outputs, calls = self._calls(feeds, lambda index: None)
        pairs = self._match_pairs(calls)
        if replacements is not None:  # every run makes the same calls in the same order
            outputs_instead = [None if pair is None else replacements.get(pair.real) for pair in pairs]
            outputs, calls = self._calls(feeds, outputs_instead.__getitem__)
        seen = [
            QuantizerCall(
                path_of(self._model, call.module) if pair is None else pair.quantizer, pair, call.x, call.y
            )
            for call, pair in zip(calls, pairs, strict=True)
        ]
        return outputs, seen

    def _calls(
        self, feeds: Mapping[str, NDArray], replacement: Callable[[int], NDArray | None]
    ) -> tuple[list[NDArray], list[_Call]]:
        calls: list[_Call] = []

        def handle(module: nn.Module, args: tuple[Any, ...], run: Callable[[], Tensor]) -> Tensor:
            output, replaced = run(), replacement(len(calls))
            calls.append(_Call(module, args, _copy(args[0]), _copy(output)))
            return (
                output
                if replaced is None
                else torch.from_numpy(replaced.reshape(output.shape).copy()).to(output)
            )

        with (
            StableSorts(),
            intercept_quantizers(self._model, handle),
        ):  # rows that experts share lie as in the file
            return self(feeds), calls

    def _match_pairs(self, calls: Sequence[_Call]) -> list[NamedPair | None]:
        """Return the pair of each call: that of its own quantizer, in order, or of another with equal
        arguments.

        A quantizer whose calls are not as many as its pairs, as where the file leaves out what nobody reads,
        has none: which call is which pair is not known.
        """
        pairs_left: dict[nn.Module, list[NamedPair]] = defaultdict(list)
        for pair in self.pairs:
            pairs_left[module_at(self._model, pair.quantizer)].append(pair)
        calls_of: dict[nn.Module, list[_Call]] = defaultdict(list)
        for call in calls:
            if not any(same_arguments(other.args, call.args) for other in calls_of[call.module]):
                calls_of[call.module].append(call)
        for module, distinct in calls_of.items():
            if 1 < len(distinct) > len(pairs_left[module]) > 0:
                pairs_left[module] = []
        pairs = [pairs_left[call.module].pop(0) if pairs_left[call.module] else None for call in calls]
        for index, call in enumerate(calls):
            if pairs[index] is None:
                twins = (
                    pair for pair, other in zip(pairs, calls, strict=True)
                    if pair is not None and same_arguments(other.args, call.args)
                )  # fmt: skip
                pairs[index] = next(twins, None)
        return pairs


def as_array(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as an array of its own type.

    bfloat16, which NumPy lacks, becomes float32. Complex numbers become pairs along a last axis, as in files.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def _copy(tensor: Tensor) -> NDArray[np.float32]:
    """Return a copy of a tensor's present values, because an in-place operator may change them."""
    array: NDArray[np.float32] = tensor.detach().cpu().float().numpy().copy()
    return array
