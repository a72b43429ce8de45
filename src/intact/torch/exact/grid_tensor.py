"""Carry the grid of a quantizer's output with the tensor itself, for code that opens no mode.

A `TensorQuantizer` in evaluation mode returns a `GridTensor`: an ordinary tensor whose class sees the
functions that read it. Products behind it are then the engine's (docs/numerics.md, N65), in whatever module
they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex

import torch
from torch import Tensor, nn

from intact.torch.exact.exact_mode import ExactMode, has_engine_form, is_suspended, open_mode
from intact.torch.exact.tensor_grids import CarriesGrid, GridClaim, TensorGrid, grid_of
from intact.torch.operators import fake_quantize as ops
from intact.torch.private_torch import DisableTorchFunctionSubclass, is_in_functorch, storage_id
from intact.torch.tracing.function_names import function_of

__all__ = ["GridTensor", "carry_grid", "plain_tensor"]

_MEMORY = frozenset({
    "array", "array_interface", "as_strided", "data", "data_ptr", "dlpack", "numpy", "storage",
    "untyped_storage",
})  # fmt: skip
"""Functions that give memory out of PyTorch's sight: whoever writes there is counted by no version."""


class GridTensor(CarriesGrid):
    """A tensor that knows that its elements are multiples of a step.

    Functions that only move elements return another one. All others return ordinary tensors, and so do
    copies, pickles and whatever a tracer records.

    Rule N65.
    """

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if not has_engine_form(func) or _is_torchs_own():
            with DisableTorchFunctionSubclass():
                result = func(*args, **kwargs)
            _doubt(func, args, result)
            return result
        mode = ExactMode()
        plain_args, plain_kwargs, aliases = mode.grids.take_in(args, kwargs)
        with mode:
            result = func(*plain_args, **plain_kwargs)
        if function_of(func).writes:
            _doubt(func, args, result)
        if isinstance(kwargs.get("out"), CarriesGrid):
            kwargs["out"]._claim.is_doubtful = True
        carried = _carry_on(result, mode, {id(alias): source for alias, source in aliases})
        mode.grids.clear()
        return carried

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the parts along the first axis, which have the grid, too."""
        return iter(self.unbind(0))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Return an ordinary tensor, or parameter."""
        if id(self) not in memo:
            memo[id(self)] = _ordinary(self).__deepcopy__(memo)  # type: ignore[no-untyped-call]
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Return how an ordinary tensor, or parameter, is pickled."""
        return _ordinary(self).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]

    def __repr__(self, **options: Any) -> str:  # type: ignore[override]
        return str(_ordinary(self).__repr__(**options))  # type: ignore[no-untyped-call]


def carry_grid(
    y: Tensor, inputs: Tensor, high: Tensor, low: Tensor | None, format: str, axis: Any, narrow: bool
) -> Tensor:
    """Return a quantizer's output with its grid.

    Inside of `exact_functions` its mode notes the grid, and the tensor stays an ordinary one; so it does
    where no product reads grids: under tracers, off the CPU, and in other dtypes than float32.

    Args:
        y: What `intact::fake_quantize` computed.
        inputs: Of what.
        high, low, format, axis, narrow: The other arguments of that call.
    """
    if type(y) is not Tensor or y.dtype != torch.float32 or y.device.type != "cpu":
        return y
    if y.layout != torch.strided or not y.numel() or _is_torchs_own():
        return y
    grid = grid_of(inputs, high, low, format, axis, narrow)
    mode = open_mode()
    if mode is not None:
        mode.grids.put(y, grid)
        return y
    return y if grid is None else _with_claim(y, GridClaim.of(y), grid)


def plain_tensor(x: Tensor) -> Tensor:
    """Return `x` without its grid, on the same memory."""
    return x.as_subclass(Tensor) if isinstance(x, CarriesGrid) else x


def _is_torchs_own() -> bool:
    """Return whether functions are PyTorch's own in this thread at present."""
    return is_suspended() or ops.is_tracing() or is_in_functorch()


def _with_claim(y: Tensor, claim: GridClaim, grid: TensorGrid) -> GridTensor:
    result: GridTensor = y.as_subclass(GridTensor)
    result._claim, result._grid = claim, grid
    return result


def _carry_on(result: Any, mode: ExactMode, sources: dict[int, CarriesGrid]) -> Any:
    """Return results with the grids that `mode` noted for them.

    Args:
        result: A tensor, or a tuple or list of some.
        mode: In which they were computed.
        sources: The operands, by the identity of the ordinary tensors that stood for them.
    """
    if type(result) in (tuple, list):
        return type(result)(_carry_on(part, mode, sources) for part in result)
    if type(result) is not Tensor or id(result) in sources:
        return sources.get(id(result), result)
    grid = mode.grids.of_layer_input(result)
    if grid is None or result.device.type != "cpu":
        return result
    memory = storage_id(result)
    shared = (x._claim for x in sources.values() if storage_id(plain_tensor(x)) == memory)  # views of one
    return _with_claim(result, next(shared, None) or GridClaim.of(result), grid)


def _doubt(func: Any, args: tuple[Any, ...], result: Any) -> None:
    """Note that PyTorch may not count later writes to the memory of an operand."""
    if not args or not isinstance(args[0], CarriesGrid):
        return
    info = function_of(func)
    name = (
        getattr(getattr(func, "__self__", None), "__name__", info.name) if info.name == "get" else info.name
    )
    view = isinstance(result, Tensor) and result.is_inference() and result is not args[0]
    if info.writes or name in _MEMORY or (view and storage_id(result) == storage_id(plain_tensor(args[0]))):
        args[0]._claim.is_doubtful = True


def _ordinary(x: GridTensor) -> Tensor:
    plain = plain_tensor(x)
    return nn.Parameter(plain.detach(), x.requires_grad) if getattr(x, "_is_param", False) else plain
