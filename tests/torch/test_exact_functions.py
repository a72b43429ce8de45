"""Torch functions of modules in evaluation mode equal `numerics` in every bit; gradients are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from intact import graph, numerics
from intact.torch.exact import exact_functions, torch_functions
from intact.torch.operators.fake_quantize import fake_quantize

EVALUATED = nn.Identity().eval()


def floats(*shape: int, seed: int = 0) -> Tensor:
    """Of sizes so far apart that the order of sums counts."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator) * 2.0 ** torch.randint(-4, 4, shape, generator=generator)


def same_bits(output: Tensor, want: np.ndarray) -> None:
    assert output.shape == want.shape
    assert output.detach().numpy().tobytes() == np.ascontiguousarray(want, np.float32).tobytes()


CALLED = {
    f"{name} {variant.step}": (name, variant) for _, variant in graph.ops.VARIANTS for name in variant.torch
}


@pytest.mark.rule("N65")
@pytest.mark.parametrize("called", CALLED)
def test_functions_of_one_real_are_those_of_numerics(called: str) -> None:
    name, variant = CALLED[called]
    spaces = (space for space in (torch, F, torch.special) if hasattr(space, name))
    function, x = getattr(next(spaces), name), floats(5, 300)
    with exact_functions(EVALUATED):
        output = function(x, **variant.torch_keywords)
    same_bits(output, numerics.FUNCTIONS[variant.step](x.numpy()))
    torch.testing.assert_close(
        output, function(x, **variant.torch_keywords), rtol=1e-5, atol=1e-5, equal_nan=True
    )


@pytest.mark.parametrize("name", ["erf", "expit", "expm1", "log1p", "log_softmax", "softmax"])
def test_special_functions_are_those_of_the_same_name(name: str) -> None:
    """Their names begin with ``special_``, and they were torch's."""
    special, other = getattr(torch.special, name), getattr(torch, {"expit": "sigmoid"}.get(name, name))
    operands = [floats(5, 300), *[-1] * name.endswith("softmax")]
    with exact_functions(EVALUATED):
        output, want = special(*operands), other(*operands)
    same_bits(output, want.numpy())


@pytest.mark.parametrize("root", [torch.sqrt, lambda x: x**0.5, lambda x: x.clone().sqrt_()])
def test_roots_are_rounded_once(root: Callable[[Tensor], Tensor]) -> None:
    """MKL's are off by a last bit in one of 140."""
    x = floats(100, 300).abs()
    with exact_functions(EVALUATED):
        output = root(x)
    same_bits(output, np.sqrt(x.numpy()))


@pytest.mark.parametrize("form", ["number", "operator", "tensors"])
def test_powers_by_tensors_are_what_folded_constants_are(form: str) -> None:
    """Position embeddings divide by ``10000 ** (i / width)``, which exporters fold."""
    exponent = torch.arange(4096, dtype=torch.float32) / 4096
    base = torch.full((4096,), 10000.0) if form == "tensors" else 10000
    with exact_functions(EVALUATED):
        output = base**exponent if form == "operator" else torch.pow(base, exponent)
    folded = graph.float_value("Pow", {}, [np.array(10000, np.float32), exponent.numpy()])
    assert folded is not None
    same_bits(output, folded)


@pytest.mark.parametrize("name", ["sigmoid", "exp", "tanh"])
def test_functions_in_place_write_what_others_return(name: str) -> None:
    x = floats(3, 50)
    want = numerics.FUNCTIONS[name](x.numpy())
    with exact_functions(EVALUATED):
        output = getattr(x, f"{name}_")()
    assert output is x
    same_bits(x, want)


X, A, B = floats(4, 6, 50), floats(50, seed=1), floats(50, seed=2)
IMAGE, FILTERS, BIAS = floats(2, 6, 9, 9), floats(8, 3, 3, 3, seed=3), floats(8, seed=4)

CALLS: dict[str, tuple[Callable[[], Tensor], Callable[[], Any]]] = {
    "a sum with alpha": (lambda: torch.add(X, A, alpha=0.3), lambda: X.numpy() + A.numpy() * np.float32(0.3)),
    "softmax": (lambda: X.softmax(-1), lambda: numerics.softmax(X, -1)),
    "softmax of another axis": (lambda: F.softmax(X, dim=1), lambda: numerics.softmax(X, 1)),
    "layer_norm": (lambda: F.layer_norm(X, (50,), A, B), lambda: numerics.layer_norm(X, A, B)),
    "sum": (lambda: X.sum((0, 2)), lambda: numerics.sum_over(X, (0, 2))),
    "mean": (lambda: X.mean(-1, keepdim=True), lambda: numerics.mean_over(X, (2,), True)),
    "cumsum": (lambda: X.cumsum(2), lambda: numerics.cum_sum(X.numpy(), 2)),
    "matmul": (lambda: X @ X.mT, lambda: numerics.float_product(X, X.mT)),
    "linear": (
        lambda: F.linear(X, FILTERS.reshape(8, -1)[:, :].repeat(1, 2)[:, :50], BIAS),
        lambda: numerics.float_product(X, FILTERS.reshape(8, -1).repeat(1, 2)[:, :50].T, BIAS),
    ),
    "conv2d": (
        lambda: F.conv2d(IMAGE, FILTERS, BIAS, 2, 1, 1, 2),
        lambda: numerics.float_conv(IMAGE, FILTERS, BIAS, stride=2, padding=1, groups=2),
    ),
    "conv_transpose2d": (
        lambda: F.conv_transpose2d(IMAGE, FILTERS[:6], None, 2, 1),
        lambda: numerics.float_conv_transpose(
            IMAGE, FILTERS[:6].transpose(0, 1), stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1),
            output_padding=(0, 0),
        ),
    ),
}  # fmt: skip


@pytest.mark.rule("N65")
@pytest.mark.parametrize("name", CALLS)
def test_sums_products_and_norms_have_one_order(name: str) -> None:
    call, want = CALLS[name]
    with exact_functions(EVALUATED):
        output = call()
    same_bits(output, want())


def test_a_batch_norm_is_a_product_and_a_sum_rounded_by_themselves() -> None:
    norm = nn.BatchNorm2d(6).eval()
    norm.running_mean.copy_(floats(6, seed=5))
    norm.running_var.copy_(floats(6, seed=6).abs() + 0.1)
    with exact_functions(norm):
        output = norm(IMAGE)
    parameters = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    gain, shift = numerics.fold_batchnorm(*(p.detach().numpy() for p in parameters), norm.eps)
    want = IMAGE.numpy() * gain[:, None, None] + shift[:, None, None]
    same_bits(output, want)


def quantize_tensor(x: Tensor, amax: float, **grid: Any) -> Tensor:
    return fake_quantize(x, amax, **grid)


@pytest.mark.rule("N65")
@pytest.mark.parametrize("width", [40, 3000])  # sums that float32 holds, and longer ones
def test_products_of_quantized_tensors_are_exact_sums_times_one_scale(width: int) -> None:
    x, w, bias = floats(7, width), floats(5, width, seed=1), floats(5, seed=2)
    with exact_functions(EVALUATED):
        output = F.linear(quantize_tensor(x, 3.3), quantize_tensor(w, 2.7), bias)
    steps = [np.float32(3.3) / np.float32(127), np.float32(2.7) / np.float32(127)]
    codes = [np.clip(np.rint(t.numpy() / s), -128, 127) for t, s in zip((x, w), steps, strict=True)]
    total = (codes[0].astype(np.int64) @ codes[1].astype(np.int64).T).astype(np.float32)
    same_bits(output, total * np.float32(np.float64(steps[0]) * steps[1]) + bias.numpy())


@pytest.mark.parametrize("width", [64, 3000])
@pytest.mark.parametrize("form", ["linear", "matmul", "conv"])
def test_codes_of_16_bits_have_sums_that_are_rounded_to_32(width: int, form: str) -> None:
    """Layers with weights of 8 bits multiply them as integers (N62), as long as nothing lies between."""
    x, w = floats(7, width), floats(5, width, seed=1)
    with exact_functions(EVALUATED):
        a, b = quantize_tensor(x, 9.0, format="int16"), quantize_tensor(w, 2.7)
        if form == "conv":
            images, filters = x[..., None, None], w[..., None, None]
            output = F.conv2d(quantize_tensor(images, 9.0, format="int16"), quantize_tensor(filters, 2.7))[
                ..., 0, 0
            ]
        else:
            output = F.linear(a, b) if form == "linear" else torch.matmul(a, b.t())
        moved = F.linear(a.reshape(7, 1, width), b)
    steps = [np.float32(9) / np.float32(32767), np.float32(2.7) / np.float32(127)]
    codes = [
        np.clip(np.rint(t.numpy() / s), -128 * 2 ** (8 * i), 128 * 2 ** (8 * i) - 1).astype(np.int64)
        for t, s, i in zip((x, w), steps, (1, 0), strict=True)
    ]
    shift = numerics.shift_of_sums(32768 * np.abs(codes[1]).sum(1))
    assert (shift > 0) == (width == 3000)
    total = np.floor((codes[0] @ codes[1].T) / 2.0**shift + 0.5).astype(np.float32)
    same_bits(output, total * np.float32(np.float64(steps[0]) * steps[1] * 2**shift))
    reals = [(c * s).astype(np.float32) for c, s in zip(codes, steps, strict=True)]
    same_bits(moved[:, 0], numerics.float_product(reals[0], reals[1].T))


def test_grids_go_through_what_only_moves_data() -> None:
    x, w = floats(4, 6, 8), floats(5, 48, seed=1)
    with exact_functions(EVALUATED):
        weight = quantize_tensor(w, 2.7)
        straight = F.linear(quantize_tensor(x, 3.3).flatten(1), weight)
        moved = F.linear(quantize_tensor(x.transpose(1, 2), 3.3).transpose(1, 2).reshape(4, 48), weight)
        lost = F.linear((quantize_tensor(x, 3.3) + 0.1).flatten(1), weight)
    assert torch.equal(straight, moved)
    want = numerics.float_product((quantize_tensor(x, 3.3) + 0.1).flatten(1), quantize_tensor(w, 2.7).T)
    same_bits(lost, want)


def test_a_tensor_that_is_written_to_has_no_grid() -> None:
    x, w = floats(4, 48), floats(5, 48, seed=1)
    with exact_functions(EVALUATED):
        written = quantize_tensor(x, 3.3)
        written.add_(0.1)
        output = F.linear(written, quantize_tensor(w, 2.7))
    same_bits(output, numerics.float_product(quantize_tensor(x, 3.3) + 0.1, quantize_tensor(w, 2.7).T))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.softmax(x, -1), lambda x: F.layer_norm(x, (50,), A, B), lambda x: x @ A, F.gelu, F.silu,
        lambda x: F.linear(fake_quantize(x, 4.0), fake_quantize(A[None], 3.0)), lambda x: x.mean(1),
    ],
)  # fmt: skip
def test_gradients_are_those_of_torch(call: Callable[[Tensor], Tensor]) -> None:
    calls = []
    for way in (exact_functions(EVALUATED), torch_functions()):
        x = X.clone().requires_grad_()
        with way:
            call(x).square().sum().backward()
        calls.append(x.grad)
    torch.testing.assert_close(calls[0], calls[1], rtol=1e-4, atol=1e-5)


def test_training_and_exports_have_torchs_own_functions() -> None:
    x = floats(3, 64)
    with exact_functions(nn.Identity().train()):
        assert torch.equal(x.softmax(-1), torch.softmax(x, -1))
    with torch_functions(), exact_functions(EVALUATED):
        output = x.exp()
    assert torch.equal(output, torch.exp(x))


def test_other_dtypes_stay_with_torch() -> None:
    x = floats(3, 64).double()
    with exact_functions(EVALUATED):
        outputs = x.exp(), x.bfloat16().softmax(-1)
    assert torch.equal(outputs[0], torch.exp(x))
    assert torch.equal(outputs[1], torch.softmax(x.bfloat16(), -1))


def test_export_and_compile_see_one_operator() -> None:
    x = floats(3, 8)
    output = torch.ops.intact.exact.default([x], "softmax", '{"axis": 1}')
    same_bits(output, numerics.softmax(x.numpy(), 1))
    torch.library.opcheck(
        torch.ops.intact.exact.default, ([x.requires_grad_()], "softmax", '{"axis": 1}'),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )  # fmt: skip
