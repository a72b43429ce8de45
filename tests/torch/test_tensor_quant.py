"""The bare functions and descriptors of the old library, its printed numbers, without its defects."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from intact import numerics
from intact.errors import IntactError
from intact.spec import Format, QuantSpec
from intact.torch import tensor_quant as tq
from intact.torch.tensor_quant import QuantDescriptor

FUNCTIONS = [tq.fake_tensor_quant, tq.legacy_fake_tensor_quant, lambda *a, **k: tq.tensor_quant(*a, **k)[0]]
NAMES = ["fake", "legacy", "real"]


@pytest.fixture
def guide_x() -> torch.Tensor:
    torch.manual_seed(12345)
    return torch.rand(10)


def values_in_print(x: torch.Tensor) -> list[float]:
    return [round(v, 4) for v in x.tolist()]


def test_the_guides_fake_quantized_numbers(guide_x: torch.Tensor) -> None:
    got = tq.fake_tensor_quant(guide_x, guide_x.abs().max())
    assert values_in_print(got) == [
        0.9843,
        0.8828,
        0.9921,
        0.4609,
        0.0859,
        0.1797,
        0.3672,
        0.5703,
        0.3359,
        0.2109,
    ]


def test_the_guides_codes_and_scale(guide_x: torch.Tensor) -> None:
    codes, scale = tq.tensor_quant(guide_x, guide_x.abs().max())
    assert codes.tolist() == [126, 113, 127, 59, 11, 23, 47, 73, 43, 27]
    assert values_in_print(scale.view(1)) == [128.0057]


@pytest.mark.parametrize("unsigned", [False, True], ids=["signed", "unsigned"])
@pytest.mark.parametrize("narrow", [False, True], ids=["full", "narrow"])
@pytest.mark.parametrize("bits", [3, 8, 12])
@pytest.mark.parametrize("shape", [(), (1, 3, 1), (5,)], ids=str)
def test_codes_times_step_is_the_fake_quantized_tensor(
    unsigned: bool, narrow: bool, bits: int, shape: tuple[int, ...]
) -> None:
    x = torch.randn(2, 3, 5)
    x = x.abs() if unsigned else x
    amax = torch.rand(shape) + 0.5
    codes, view = tq.tensor_quant(x, amax, bits, unsigned, narrow)
    spec = QuantSpec(Format.integer(bits, signed=not unsigned), narrow=narrow)
    assert codes.min() >= spec.qmin and codes.max() <= spec.qmax
    scale = torch.from_numpy(np.asarray(numerics.scale_from_amax(amax.numpy(), spec)))
    assert torch.equal(codes * scale, tq.fake_tensor_quant(x, amax, bits, unsigned, narrow))
    assert np.array_equal(view.numpy(), numerics.inverse_scale_view(amax.numpy(), spec))
    assert view.shape == amax.shape


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_keywords_and_defaults(function: object) -> None:
    x = torch.tensor([-2.0, 0.3, 1.0])
    by_name = function(inputs=x, amax=torch.tensor(1.0), num_bits=8, unsigned=False, narrow_range=True)  # type: ignore[operator]
    assert torch.equal(by_name, function(x, torch.tensor(1.0)))  # type: ignore[operator]
    assert torch.equal(by_name, function(x, 1.0))  # type: ignore[operator]


@pytest.mark.rule("N7")
@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_a_tiny_amax_gives_zeros(function: object) -> None:
    amax = torch.tensor([2.0**-24, 1.0]).view(2, 1)
    got = function(torch.tensor([[5.0, -5.0], [1.0, 0.0]]), amax)  # type: ignore[operator]
    assert got[0].tolist() == [0, 0] and got[1, 0] != 0
    assert tq.tensor_quant(torch.ones(2, 1), amax)[1].flatten().tolist() == [1, 127]


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_gradient_is_masked_by_amax(function: object) -> None:
    x = torch.tensor([-1.5, -1.0, 0.2, 1.0, 1.0001], requires_grad=True)
    function(x, torch.tensor(1.0)).sum().backward()  # type: ignore[operator]
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes_are_computed_in_float32(dtype: torch.dtype) -> None:
    x = torch.randn(100).to(dtype)
    amax = torch.tensor(1.5)
    got = tq.fake_tensor_quant(x, amax)
    assert got.dtype == dtype and torch.equal(got, tq.fake_tensor_quant(x.float(), amax).to(dtype))
    codes, scale = tq.tensor_quant(x, amax)
    assert codes.dtype == dtype and scale.dtype == dtype
    assert torch.equal(codes, tq.tensor_quant(x.float(), amax)[0].to(dtype))


def test_function_classes_apply() -> None:
    x, amax = torch.randn(8), torch.tensor(1.0)
    for cls in (tq.FakeTensorQuantFunction, tq.LegacyFakeTensorQuantFunction):
        assert torch.equal(cls.apply(x, amax), tq.fake_tensor_quant(x, amax))
        assert torch.equal(
            cls.apply(x, amax, 4, False, False), tq.fake_tensor_quant(x, amax, 4, False, False)
        )
    assert torch.equal(tq.TensorQuantFunction.apply(x, amax)[0], tq.tensor_quant(x, amax)[0])
    assert torch.equal(
        tq.FakeAffineTensorQuantFunction.apply(x, -amax, amax, 8), tq.fake_affine_tensor_quant(x, -1.0, 1.0)
    )
    assert torch.equal(tq.ScaledE4M3Function.apply(x, amax), tq.scaled_e4m3(x, amax))


def test_affine_range_and_gradient() -> None:
    x = torch.tensor([-1.0, -0.4, 0.0, 0.7, 2.0, 5.0], requires_grad=True)
    y = tq.fake_affine_tensor_quant(x, torch.tensor(-0.5), torch.tensor(2.05))
    assert torch.allclose(y, torch.tensor([-0.5, -0.4, 0.0, 0.7, 2.0, 2.05]))
    assert y[2] == 0
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(("exponent", "mantissa"), [(4, 3), (5, 2)])
def test_fp8_equals_numerics(exponent: int, mantissa: int) -> None:
    spec = QuantSpec(Format.parse(f"fp8e{exponent}m{mantissa}"))
    x = torch.randn(200, requires_grad=True)
    y = tq.scaled_e4m3(x, torch.tensor(1.5), exponent, mantissa)
    scale = numerics.scale_from_amax(1.5, spec)
    assert np.array_equal(y.detach().numpy(), numerics.fake_quantize(x.detach().numpy(), scale, 0, spec))
    y.sum().backward()
    assert torch.equal(x.grad, (x.detach().abs() <= 1.5).float())
    bare = tq.scaled_e4m3(x.detach(), E=exponent, M=mantissa)
    assert np.array_equal(bare.numpy(), numerics.fake_quantize(x.detach().numpy(), 1.0, 0, spec))


def test_without_amax_fp8_passes_every_gradient() -> None:
    x = torch.tensor([1.0, 1e6], requires_grad=True)
    tq.scaled_e4m3(x).sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own tracer
def test_fake_quantization_compiles_whole() -> None:
    x, amax = torch.randn(4, 3, requires_grad=True), torch.tensor([1.0, 0.0, 2.0])
    compiled = torch.compile(tq.fake_tensor_quant, fullgraph=True, backend="aot_eager")(x, amax)
    assert torch.equal(compiled, tq.fake_tensor_quant(x, amax))
    compiled.sum().backward()
    assert torch.equal(x.grad, (x.detach().abs() <= amax).float())


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: tq.fake_tensor_quant(-torch.ones(2), 1.0, 8, True),
            TypeError,
            "Negative values encountered",
        ),
        (
            lambda: tq.tensor_quant(-torch.ones(2), 1.0, unsigned=True),
            TypeError,
            "Negative values encountered",
        ),
        (lambda: tq.fake_tensor_quant(torch.ones(2), -1.0), ValueError, "amax: got -1.0"),
        (
            lambda: tq.tensor_quant(torch.ones(2).half(), 1e-3),
            ValueError,
            "scale is too large for FP16 with amax=",
        ),
        (lambda: tq.scaled_e4m3(torch.ones(2), E=3, M=4), NotImplementedError, "got E=3, M=4"),
        (
            lambda: QuantDescriptor(num_bits="8"),
            TypeError,
            "num_bits must be a positive integer or tuple (4,3)",
        ),
        (lambda: QuantDescriptor(num_bits=(3, 4)), TypeError, "num_bits must be a positive integer"),
        (lambda: QuantDescriptor(num_bits=8.0), TypeError, "num_bits must be"),
        (lambda: QuantDescriptor(num_bits=-1), ValueError, "got -1, want num_bits must be in 2..16"),
        (lambda: QuantDescriptor(num_bits=0), ValueError, "got 0"),
        (lambda: QuantDescriptor(name=3), TypeError, "name must be a string"),
        (lambda: QuantDescriptor(learn_amax=True, axis=0), TypeError, "learn_amax with axis=0"),
        (lambda: QuantDescriptor(amax="1"), TypeError, "amax must be float, list or ndarray"),
        (lambda: QuantDescriptor(amax=[1, "a"]), TypeError, "amax must be float, list or ndarray"),
        (lambda: QuantDescriptor(axis="0"), TypeError, "axis must be None, int or tuple"),
        (lambda: QuantDescriptor(max=1), TypeError, "Unused keys: ['max']"),
        (lambda: QuantDescriptor(calib_method="mse"), ValueError, "got 'mse', want one of"),
        (lambda: QuantDescriptor(symmetric=False, fake_quant=False), TypeError, "symmetric=False with"),
        (lambda: QuantDescriptor(symmetric=False, amax=1.0), TypeError, "amax with symmetric=False"),
        (lambda: QuantDescriptor.from_yaml("1: 2"), ValueError, "got dict, want a YAML mapping"),
        (lambda: QuantDescriptor.from_yaml("- 1"), ValueError, "got list, want a YAML mapping"),
        (lambda: QuantDescriptor.from_yaml("a: [1"), ValueError, "want YAML"),
        (
            lambda: QuantDescriptor.from_yaml("!!python/name:os.system {}"),
            ValueError,
            "want YAML without tags",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_bad_input(call: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(IntactError) as caught:
        call()  # type: ignore[operator]
    assert isinstance(caught.value, kind) and words in str(caught.value)


DESCRIPTORS = [
    {},
    {"num_bits": 4, "name": "x", "axis": 0, "unsigned": True, "narrow_range": True},
    {"num_bits": (4, 3), "calib_method": "histogram", "scale_amax": 0.5},
    {"num_bits": (5, 2), "fake_quant": True, "axis": (0, -1)},
    {"amax": [[1.0], [0.3]], "fake_quant": False},
    {"amax": 0.1, "learn_amax": True},
    {"amax": 3},
    {"symmetric": False, "calib_method": "mergeable"},
]


@pytest.mark.parametrize("values", DESCRIPTORS, ids=str)
def test_descriptors_survive_dict_and_yaml(values: dict[str, object]) -> None:
    desc = QuantDescriptor(**values)  # type: ignore[arg-type]
    for copy in (QuantDescriptor(**desc.dict()), QuantDescriptor.from_yaml(desc.to_yaml())):
        assert copy == desc and hash(copy) == hash(desc) and str(copy) == str(desc)
        for key, value in values.items():
            got = getattr(copy, key)
            assert got == value if not isinstance(value, list) else got.tolist() == np.float32(value).tolist()
    assert "python" not in desc.to_yaml()


def test_descriptors_compare() -> None:
    a = QuantDescriptor(amax=np.array([1.0, 2.0]))
    assert a == QuantDescriptor(amax=[1.0, 2.0])
    assert a != QuantDescriptor(amax=[1.0, 3.0]) and a != QuantDescriptor() and QuantDescriptor() != a
    assert a != QuantDescriptor(amax=[1.0, 2.0], narrow_range=True) and a != "descriptor"


def test_dict_leaves_defaults_out() -> None:
    assert QuantDescriptor().dict() == {"num_bits": 8, "name": None}
    assert QuantDescriptor(axis=0, narrow_range=True).dict() == {
        "num_bits": 8, "name": None, "axis": 0, "narrow_range": True,
    }  # fmt: skip


def test_properties_are_read_only() -> None:
    with pytest.raises(AttributeError):
        QuantDescriptor().num_bits = 4  # type: ignore[misc]


def test_predefined_descriptors() -> None:
    assert QuantDescriptor() == tq.QUANT_DESC_8BIT_PER_TENSOR
    assert QuantDescriptor(unsigned=True) == tq.QUANT_DESC_UNSIGNED_8BIT_PER_TENSOR
    assert tq.QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW.axis == 0
    for n in "123":
        assert getattr(tq, f"QUANT_DESC_8BIT_CONV{n}D_WEIGHT_PER_CHANNEL").axis == 0
        assert getattr(tq, f"QUANT_DESC_8BIT_CONVTRANSPOSE{n}D_WEIGHT_PER_CHANNEL").axis == 1


def test_descriptor_text() -> None:
    assert str(QuantDescriptor()) == "QuantDescriptor(8bit fake per-tensor full_range)"
    desc = QuantDescriptor(4, "w", axis=0, amax=[1, 2], narrow_range=True, scale_amax=0.5, fake_quant=False)
    assert str(desc) == "w: (4bit real axis=0 amax=[1. 2.] narrow scale_amax=0.5)"
