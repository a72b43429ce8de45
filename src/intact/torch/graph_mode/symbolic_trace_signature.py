"""Make torch.fx.symbolic_trace record forwards that take ``*args``, ``**kwargs`` or keyword-only arguments.

The tracer copies the code of such a forward as a function of plain arguments. A quantized module's forward
takes any arguments, so the copy would have too few names. So the tracer copies the float module's forward
instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from intact.torch.private_torch import PATCH_FUNCTION

__all__ = ["record_as"]

_RECORDED_AS = "_recorded_as"


def record_as(forward: Any, own: Any, check: Callable[[Any, Sequence[Any]], None]) -> None:
    """Make the tracer copy `own` where it meets `forward`.

    Args:
        forward: A function that calls `own`.
        own: The float module's function.
        check: Gets the module and its other arguments in front of each call of the copy.
    """
    setattr(forward, _RECORDED_AS, (own, check))
    _install()


@functools.cache
def _install() -> None:
    original = PATCH_FUNCTION.find()
    if original is None:
        return

    @functools.wraps(original)
    def plain_function(function: FunctionType, count: int) -> Any:
        own, check = getattr(function, _RECORDED_AS, (function, None))
        copy = original(own, count)
        if check is None:
            return copy

        def forward(module: Any, *args: Any) -> Any:
            check(module, args)
            return copy(module, *args)

        return forward

    PATCH_FUNCTION.replace(plain_function)
