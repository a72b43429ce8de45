"""Recurrent steps equal numerics.recurrence in every bit, on every kernel for products of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact import numerics
from intact.kernels import recurrent
from intact.kernels.float_steps import Real
from intact.kernels.program import View
from intact.kernels.registry import kernels_in_use
from intact.spec import QuantSpec

UINT8 = QuantSpec("uint8", symmetric=False)


class Case:
    """One layer of random sizes, in one direction or two, its tensors in any order of axes."""

    def __init__(self, runner: Any, cell: str, seed: int, threads: int = 1) -> None:
        self.cell, self.runner, self.rng = cell, runner(threads), np.random.default_rng(seed)
        steps, batch, hidden = (int(self.rng.integers(1, most)) for most in (6, 30, 40))
        self.reverse = [(False,), (True,), (False, True)][seed % 3]
        self.states = (len(self.reverse), batch, hidden)
        rows = numerics.GATES[cell] * hidden
        self.start = self.reals(steps, batch, len(self.reverse) * rows)
        self.weight = self.reals(len(self.reverse), rows, hidden) / np.float32(np.sqrt(hidden))
        self.bias = self.reals(len(self.reverse), hidden) if cell == "gru_reset_after" and seed % 2 else None
        self.first = [self.reals(*self.states) if seed % 2 else np.zeros(self.states, np.float32)] * 2
        self.lengths = self.rng.integers(-1, steps + 2, batch).astype(np.int32) if seed % 4 > 1 else None

    def reals(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def view(self, array: np.ndarray) -> View:
        order = self.rng.permutation(array.ndim).tolist()
        return self.runner.input(array, order, gap=int(self.rng.integers(0, 3)))

    def output(self, *shape: int, dtype: type = np.float32) -> Real:
        order = self.rng.permutation(len(shape)).tolist()
        return Real(self.runner.output(shape, dtype, order), 0.01, 100, 3, 250)

    def step(self, kernel: str, y: Real, *last: Real, threads: int = 1) -> Any:
        family = kernel.rpartition("_")[0]
        kernels = {**kernels_in_use(), family: kernel}
        constant = self.runner.constant
        states = [Real(self.view(state)) if state.any() else None for state in self.first]
        packed = constant(recurrent.pack_states(self.weight, self.cell, kernels["float_gemm"]))
        return recurrent.recurrent(
            self.cell, self.view(self.start), packed,
            hidden=self.states[2], reverse=self.reverse, h=states[0],
            c=states[1] if self.cell == "lstm" else None, y=y, last_h=last[0],
            last_c=last[1] if self.cell == "lstm" else None,
            bias=None if self.bias is None else constant(self.bias.reshape(-1)),
            lengths=None if self.lengths is None else self.view(self.lengths), threads=threads,
            kernels=kernels,
        )  # fmt: skip

    def reference(self) -> list[np.ndarray]:
        directions = []
        for d, start in enumerate(np.split(self.start, len(self.reverse), axis=-1)):
            bias = None if self.bias is None else self.bias[d]
            h, c = (state[d] for state in self.first)
            weights = numerics.StateWeights(self.weight[d], bias)
            directions.append(
                numerics.recurrence(self.cell, start, weights, h, c, self.lengths, reverse=self.reverse[d])
            )
        y, h, c = (np.stack(parts) for parts in zip(*directions, strict=True))
        return [np.moveaxis(y, 0, 1), h, c]


@pytest.mark.parametrize("cell", numerics.GATES)
@pytest.mark.parametrize("seed", range(4))
def test_layers(runner: Any, assert_same_bits: Any, float_gemm_kernel: str, cell: str, seed: int) -> None:
    threads = 1 + seed % 2
    case = Case(runner, cell, seed, threads)
    y = case.output(len(case.start), *case.states)
    last = [case.output(*case.states) for _ in range(2)]
    case.runner.run(case.step(float_gemm_kernel, y, *last, threads=threads))
    expected = case.reference()
    for index in range(3 if cell == "lstm" else 2):
        assert_same_bits(case.runner.result(index), expected[index])


@pytest.mark.parametrize("cell", numerics.GATES)
def test_cells(runner: Any, assert_same_bits: Any, float_steps_kernel: str, cell: str) -> None:
    case = Case(runner, cell, 7)
    y, last = case.output(len(case.start), *case.states), [case.output(*case.states) for _ in range(2)]
    case.runner.run(case.step(float_steps_kernel, y, *last))
    assert_same_bits(case.runner.result(0), case.reference()[0])


def test_codes(runner: Any, float_gemm_kernel: str) -> None:
    case = Case(runner, "lstm", 5)
    y = case.output(len(case.start), *case.states, dtype=np.uint8)
    last = [case.output(*case.states, dtype=np.uint8) for _ in range(2)]
    case.runner.run(case.step(float_gemm_kernel, y, *last))
    for index, reals in enumerate(case.reference()):
        codes = np.clip(numerics.quantize(reals, np.float32(0.01), 100, UINT8), 3, 250)
        np.testing.assert_array_equal(case.runner.result(index), codes.astype(np.uint8))


def test_views_that_do_not_fit_are_refused(runner: Any) -> None:
    case = Case(runner, "lstm", 0)
    y, last = case.output(len(case.start), *case.states), case.output(*case.states)
    kernel = kernels_in_use()["float_gemm"]
    with pytest.raises(ValueError, match="a state is"):
        case.step(kernel, y, case.output(1, 1, 1), last)
    case.weight = case.weight[:, : case.states[2]]
    with pytest.raises(ValueError, match="packed otherwise"):
        case.step("float_gemm_ref", y, last, last)
    case.start = case.start[..., :-1]
    with pytest.raises(ValueError, match="other gates"):
        case.step(kernel, y, last, last)
