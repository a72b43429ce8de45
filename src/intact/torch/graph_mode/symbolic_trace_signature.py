"""Let torch.fx.symbolic_trace record forwards that take ``*args``, ``**kwargs`` or arguments by name alone.

The tracer copies the code of such a forward as a function of plain arguments. The code of a quantized
module's forward takes any arguments, so that the copy has too few names: the float forward's is copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from intact.torch.private_torch import PATCH_FUNCTION

__all__ = ["record_as"]

_PLACE = "_recorded_as"


def record_as(forward: Any, own: Any, check: Callable[[Any, Sequence[Any]], None]) -> None:
    """Let the tracer copy `own` where it meets `forward`.

    Args:
        forward: A function that calls `own`.
        own: The float module's function.
        check: Gets the module and its other arguments in front of each call of the copy.
    """
    setattr(forward, _PLACE, (own, check))
    _install()


@functools.cache
def _install() -> None:
    original = PATCH_FUNCTION.find()
    if original is None:
        return

    @functools.wraps(original)
    def plain_function(function: FunctionType, count: int) -> Any:
        own, check = getattr(function, _PLACE, (function, None))
        copy = original(own, count)
        if check is None:
            return copy

        def forward(module: Any, *args: Any) -> Any:
            check(module, args)
            return copy(module, *args)

        return forward

    PATCH_FUNCTION.replace(plain_function)
