"""The step for attention to a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.engine.steps.elements.rotary import check_last, check_room
from intact.numerics import SCALE_BYTES


@dataclass(frozen=True)
class CachedAttention(Step):
    """Attention of new tokens to a cache [batch, heads, room, size] that they are first written to (N72).

    A new cache has the room that the plan says, and at least that of the old one. Where a caller passes one
    array as both, it is written in place.

    Attributes:
        q: float32 [batch, tokens, heads * size]; k and v likewise, with `kv_heads`.
        last: int32 or int64 [batch] or [batch, 1]: the position of the last token of each sequence.
        past_keys, past_values: "" for none.
        keys, values: float32 or float16 [batch, kv_heads, room, size], or int8 with the scale of each head
            behind its codes (`numerics.write_cache`); those of the past likewise.
        y: float32 [batch, tokens, heads * size of a value].
        scale, softcap, sinks: As in `numerics.cached_attention`.
        window: Tokens that each attends to, its own included; 0: all.
    """

    kind = "cached_attention"
    q: Read
    k: Read
    v: Read
    last: Operand
    y: Write
    keys: Write
    values: Write
    heads: int
    kv_heads: int
    scale: float
    past_keys: Read = ""
    past_values: Read = ""
    softcap: float = 0.0
    window: int = 0
    sinks: Annotated[str, Const("float32", 1)] = ""

    rules = """
        floats(q, k, v, y)
        types(keys, values, 'float32', 'float16', 'int8')
        (not past_keys) == (not past_values) | keys and values of the past, or neither
        not past_keys or dtype(past_keys) == dtype(keys) and dtype(past_values) == dtype(values) | one dtype
        ranks(3, q, k, v, y)
        ranks(4, keys, values, past_keys, past_values)
        types(last, 'int32', 'int64')
        1 <= rank(last) <= 2 | one number for each sequence
        0 < kv_heads and 0 < heads <= 2 ** 24 and heads % kv_heads == 0 | as many heads for each head of keys
        0 <= window < 2 ** 31 | 0 or more tokens
        softcap >= 0 | 0 or more
        not sinks or sinks[0] == heads | a number for each head
    """

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        q, k, v = (sizes.of(name) for name in (self.q, self.k, self.v))
        size, value_size = k[2] // self.kv_heads, v[2] // self.kv_heads
        heads = f"{self.heads} and {self.kv_heads} heads of one size"
        if k[2] % self.kv_heads or q[2] != size * self.heads:
            raise mismatch(self.k, f"{q[2]} and {k[2]} columns", heads)
        if v[2] % self.kv_heads or not q[:2] == k[:2] == v[:2]:
            raise mismatch(self.v, f"shape {v}", f"{q[:2]}, and {heads}")
        check_last(sizes, self.last, q[0])
        caches = []
        for new, past, width in (
            (self.keys, self.past_keys, size),
            (self.values, self.past_values, value_size),
        ):
            if sizes.dtype(new) == "int8":
                width += SCALE_BYTES
            least = q[1]
            if past:
                old = sizes.of(past)
                if (*old[:2], old[3]) != (q[0], self.kv_heads, width):
                    raise mismatch(past, f"shape {old}", f"({q[0]}, {self.kv_heads}, any room, {width})")
                least = old[2]
            caches.append((q[0], self.kv_heads, _room(sizes.partial_shape(new)[2], least), width))
        return (*q[:2], value_size * self.heads), *caches

    def check_positions(self, shape_of: Callable[[str], Shape], last: NDArray[Any], where: str) -> None:
        """Refuse tokens that a cache has no room for.

        Raises:
            QuantValueError: Names the tensor of positions.
        """
        room = min(shape_of(name)[2] for name in (self.keys, self.values))
        check_room(last, shape_of(self.q)[1], room, where)

    def evaluate(self, run: Run) -> None:
        q, k, v = (run.array(name) for name in (self.q, self.k, self.v))
        batch, tokens, _ = q.shape
        last = run.array(self.last)
        before = numerics.tokens_before(last, tokens)
        caches = []
        for new, past, added in ((self.keys, self.past_keys, k), (self.values, self.past_values, v)):
            old = run.array(past) if past else None
            room = _room(run.partial_shape(new)[2], tokens if old is None else old.shape[2])
            check_room(last, tokens, room, f"tensor '{self.last}'")
            apart = added.reshape(batch, tokens, self.kv_heads, added.shape[2] // self.kv_heads)
            dtype = run.tensors[new].dtype
            caches.append(numerics.write_cache(old, apart, before, room, dtype))
        keys, values = caches
        y = numerics.cached_attention(
            q.reshape(batch, tokens, self.heads, q.shape[2] // self.heads), keys, values, before,
            self.scale, self.window, self.softcap, run.array(self.sinks) if self.sinks else None,
        )  # fmt: skip
        run.bind(self.y, y.reshape(batch, tokens, -1))
        run.bind(self.keys, keys)
        run.bind(self.values, values)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        """Return the products of a full cache."""
        batch, tokens, columns = shape_of(self.y)
        return batch * tokens * shape_of(self.keys)[2] * (columns + shape_of(self.q)[2])


def _room(declared: int | None, least: int) -> int:
    return least if declared is None else max(declared, least)
