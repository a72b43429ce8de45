"""The step for linear attention: a state of fixed size in place of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class LinearAttention(Step):
    """Takes tokens into a state one after the other, and reads it behind each (N76).

    Where a caller passes one array as both states, it is written in place.

    Attributes:
        q: float32 [batch, tokens, heads * size].
        k: float32 [batch, tokens, kv_heads * size].
        v: float32 [batch, tokens, kv_heads * size of a value].
        past: float32 [batch, kv_heads, size, size of a value]; "": 0.
        decay: float32 [batch, tokens, columns]: factors of the state, one for each head, for each of its rows
            or for each of its elements; "": 1.
        beta: float32 [batch, tokens, kv_heads]: of the delta rule; "": values are added as they are.
        y: float32 [batch, tokens, heads * size of a value].
        state: As `past`.
        scale: Of what is read.
    """

    kind = "linear_attention"
    q: Read
    k: Read
    v: Read
    y: Write
    state: Write
    heads: int
    kv_heads: int
    scale: float
    past: Read = ""
    decay: Read = ""
    beta: Read = ""

    rules = """
        floats(q, k, v, y, state)
        not past or dtype(past) == 'float32' | float32
        not decay or dtype(decay) == 'float32' | float32
        not beta or dtype(beta) == 'float32' | float32
        ranks(3, q, k, v, y, decay, beta)
        ranks(4, past, state)
        0 < kv_heads and 0 < heads <= 2 ** 24 and heads % kv_heads == 0 | heads that share heads of keys
        size = k[2] // kv_heads
        fits k: k[:2] == q[:2] and k[2] % kv_heads == 0 and q[2] == size * heads | heads of one size
        fits v: v[:2] == q[:2] and v[2] % kv_heads == 0 | a row for each query, heads of one size
        state_of = [q[0], kv_heads, k[2] // kv_heads, v[2] // kv_heads]
        fits past: not past or past[:] == state_of | a matrix for each head of keys
        fits decay: not decay or decay[:2] == q[:2] | a row for each query
        whole = k[2] * (v[2] // kv_heads)
        of_each = decay[2] == kv_heads or decay[2] == k[2] or decay[2] == whole
        fits decay: not decay or of_each | a factor for each head, row or element of the state
        fits beta: not beta or beta[:] == [q[0], q[1], kv_heads] | a number for each token and head of keys
        sizes y: [q[0], q[1], v[2] // kv_heads * heads]
        sizes state: state_of
    """

    def evaluate(self, run: Run) -> None:
        q, k, v = (run.array(name) for name in (self.q, self.k, self.v))
        batch, tokens, _ = q.shape
        own = (batch, tokens, self.kv_heads)
        size, value_size = k.shape[2] // self.kv_heads, v.shape[2] // self.kv_heads
        decay = run.array(self.decay) if self.decay else None
        y, state = numerics.linear_attention(
            q.reshape(batch, tokens, self.heads, size), k.reshape(*own, size), v.reshape(*own, value_size),
            run.array(self.past) if self.past else None,
            decay=None if decay is None else decay.reshape(*own, decay.shape[2] // self.kv_heads),
            beta=run.array(self.beta) if self.beta else None, scale=self.scale,
        )  # fmt: skip
        run.bind(self.y, y.reshape(batch, tokens, -1))
        run.bind(self.state, state)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        """Return the products with states: one for each query, one or two for each key."""
        batch, tokens, columns = shape_of(self.y)
        _, heads, size, value_size = shape_of(self.state)
        return batch * tokens * size * (columns + (2 if self.beta else 1) * heads * value_size)
