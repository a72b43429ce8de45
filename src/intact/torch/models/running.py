"""A module as something that arrays go into and come out of, for those who know no torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from intact.errors import QuantValueError
from intact.graph import NamedPair, QuantizerCall
from intact.torch.models.quantizer_calls import StableSorts, module_at, path_of, same_arguments, watching

__all__ = ["Runner"]


@dataclass
class _Call:
    """One call of a quantizer: `args` keep its tensors where they are, `x` and `y` what they held."""

    module: nn.Module
    args: tuple[Any, ...]
    x: NDArray[np.float32]
    y: NDArray[np.float32]


class Runner:
    """Runs `model`, in evaluation mode, on arrays: its inputs in order, whatever their names.

    Args:
        model: Any module; a fake-quantized one, where it is traced.
        pairs: What the model's file has for its quantizers.
    Raises:
        QuantValueError: It is no module.
    """

    def __init__(self, model: nn.Module, pairs: Sequence[NamedPair] = ()) -> None:
        if not isinstance(model, nn.Module):
            raise QuantValueError("module", f"a {type(model).__name__}", "a torch.nn.Module", "return one")
        self._model, self.pairs = model.eval(), tuple(pairs)

    def __call__(self, feeds: Mapping[str, NDArray]) -> list[NDArray]:
        """The outputs, in the model's order."""
        with torch.no_grad():
            made = self._model(*(torch.from_numpy(np.array(array)) for array in feeds.values()))
        return [_array(leaf) for leaf in pytree.tree_leaves(made) if isinstance(leaf, Tensor)]

    def trace(
        self, feeds: Mapping[str, NDArray], given: Mapping[str, NDArray] | None = None
    ) -> tuple[list[NDArray], list[QuantizerCall]]:
        """Run once, and keep what every quantizer saw and made.

        Args:
            feeds: The inputs by name, in the model's order.
            given: What the layers behind a quantizer get in place of what it made, by the name of its
                pair's floats: so each layer can be looked at by itself.
        Returns:
            The outputs, and the calls in their order.
        """
        outputs, calls = self._calls(feeds, lambda index: None)
        pairs = self._matched(calls)
        if given is not None:  # every run makes the same calls in the same order
            instead = [None if pair is None else given.get(pair.real) for pair in pairs]
            outputs, calls = self._calls(feeds, instead.__getitem__)
        seen = [
            QuantizerCall(
                path_of(self._model, call.module) if pair is None else pair.quantizer, pair, call.x, call.y
            )
            for call, pair in zip(calls, pairs, strict=True)
        ]
        return outputs, seen

    def _calls(
        self, feeds: Mapping[str, NDArray], instead: Callable[[int], NDArray | None]
    ) -> tuple[list[NDArray], list[_Call]]:
        calls: list[_Call] = []

        def answer(module: nn.Module, args: tuple[Any, ...], run: Callable[[], Tensor]) -> Tensor:
            made, real = run(), instead(len(calls))
            calls.append(_Call(module, args, _copy(args[0]), _copy(made)))
            return made if real is None else torch.from_numpy(real.reshape(made.shape).copy()).to(made)

        with StableSorts(), watching(self._model, answer):  # rows that experts share lie as in the file
            return self(feeds), calls

    def _matched(self, calls: Sequence[_Call]) -> list[NamedPair | None]:
        """The pair of each call: of its own quantizer, in order, or of another that quantizes the same."""
        waiting: dict[nn.Module, list[NamedPair]] = defaultdict(list)
        for pair in self.pairs:
            waiting[module_at(self._model, pair.quantizer)].append(pair)
        found = [waiting[call.module].pop(0) if waiting[call.module] else None for call in calls]
        for index, call in enumerate(calls):
            if found[index] is None:
                twins = (
                    pair for pair, other in zip(found, calls, strict=True)
                    if pair is not None and same_arguments(other.args, call.args)
                )  # fmt: skip
                found[index] = next(twins, None)
        return found


def _array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array of its own type; NumPy has no bfloat16."""
    found: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()
    return found


def _copy(tensor: Tensor) -> NDArray[np.float32]:
    """What a tensor holds now: an operator in place may change it."""
    found: NDArray[np.float32] = tensor.detach().cpu().float().numpy().copy()
    return found
