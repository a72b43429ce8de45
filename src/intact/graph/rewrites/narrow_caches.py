"""Caches of a decoder that hold keys and values as float16, or as int8 codes with a range for each head."""

from __future__ import annotations

import onnx_ir as ir

from intact.errors import QuantValueError
from intact.graph.core.edit import set_shape
from intact.graph.core.quantization_view import is_op
from intact.graph.ops import MICROSOFT, NarrowGroupQueryAttention
from intact.numerics import CACHE_DTYPES, SCALE_BYTES

_TYPES = {"float16": ir.DataType.FLOAT16, "int8": ir.DataType.INT8}
_PASTS, _PRESENTS = (3, 4), (1, 2)


def narrow_caches(model: ir.Model, dtype: str) -> None:
    """Let the caches of a decoder hold numbers of another type, in place (N72).

    Args:
        model: A decoder whose GroupQueryAttention nodes have float32 caches.
        dtype: "float32", as they are; "float16"; or "int8".
    Raises:
        QuantValueError: It is another one.
    """
    if dtype not in CACHE_DTYPES:
        raise QuantValueError(
            "cache", f"{dtype!r:.40}", " or ".join(CACHE_DTYPES), "choose how keys and values are kept"
        )
    if dtype == "float32":
        return
    for node in model.graph:
        if not is_op(node, "GroupQueryAttention", domain=MICROSOFT):
            continue
        node.domain = NarrowGroupQueryAttention.domain
        caches = [node.inputs[at] for at in _PASTS] + [node.outputs[at] for at in _PRESENTS]
        for cache in caches:
            if cache is not None:
                _retype(cache, dtype)
    model.opset_imports[NarrowGroupQueryAttention.domain] = 1


def _retype(cache: ir.Value, dtype: str) -> None:
    cache.dtype = _TYPES[dtype]
    if dtype != "int8" or cache.shape is None:
        return
    axes = [axis if isinstance(axis, int) else axis.value for axis in cache.shape]
    if isinstance(axes[-1], int):
        set_shape(cache, [*axes[:-1], axes[-1] + SCALE_BYTES])
