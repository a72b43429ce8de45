"""Graph mode on calls that torch's exporter has no ONNX operator for, and on those that it learns from us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import UnsupportedError
from intact.torch import export, load_checkpoint, quantize, save_checkpoint
from intact.torch.qdq.run_exporter import translate


class Around(nn.Module):
    """A function between convolutions, one of which is there twice."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.first, self.second, self.last = (
            nn.Conv2d(3, 16, 3, padding=1),
            nn.Conv2d(16, 16, 1),
            nn.Conv2d(16, 4, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.second(torch.relu(self.first(x))))
        z = self.function(y)  # here
        return self.last(torch.relu(self.second(z) + z))


def images() -> Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def quantize_model(model: nn.Module) -> Any:
    torch.manual_seed(0)
    return quantize(model.eval(), [images()], progress=False, method="max", float_budget=0)


def rotate(x: Tensor) -> Tensor:
    return torch.linalg.matrix_exp(0.1 * x)


class TestCallsWithoutOperator:
    def test_all_else_is_placed_as_always(self) -> None:
        result, plain = quantize_model(Around(rotate)), quantize_model(Around(torch.abs))
        assert not result.report.replaced
        assert set(result.report.modules) == set(plain.report.modules) == {"first", "second", "last"}
        assert set(result.report.quantizers) == set(plain.report.quantizers)
        assert {"second_input_quantizer", "add_quantizer"} <= set(result.report.quantizers)
        assert "aten.linalg_matrix_exp.default" in result.report.left["linalg_matrix_exp"]

    def test_the_module_answers_trains_and_is_kept(self, tmp_path: Path) -> None:
        model = quantize_model(Around(rotate)).model
        torch.manual_seed(0)
        module = Around(rotate).eval()
        module.load_state_dict({k: v for k, v in model.state_dict().items() if "quantizer" not in k})
        wanted = module(images())
        assert (model(images()) - wanted).norm() < 0.1 * wanted.norm()
        model.train()(images()).square().mean().backward()
        assert all(p.grad is not None and p.grad.any() for p in model.parameters())
        save_checkpoint(model, tmp_path / "m.safetensors")
        restored = load_checkpoint(Around(rotate), tmp_path / "m.safetensors").eval()
        assert torch.equal(restored(images()), model.eval()(images()))

    def test_export_and_compile_name_the_call_and_write_nothing(self, tmp_path: Path) -> None:
        model = quantize_model(Around(rotate)).model
        message = r"aten\.linalg_matrix_exp\.default at test_graph_mode_untranslated\.py:\d+, `z = .*# here`"
        with pytest.raises(UnsupportedError, match=message):
            export(model, images(), tmp_path / "m.onnx")
        assert not list(tmp_path.iterdir())
        with pytest.raises(UnsupportedError, match=message):
            intact.compile(model, images())

    def test_the_module_that_calls_it_is_named(self) -> None:
        class Inside(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return rotate(x)

        with pytest.raises(UnsupportedError, match=r"module 'function': got a call of aten\.linalg_m"):
            intact.compile(quantize_model(Around(Inside())).model, images())

    def test_several_calls_with_any_number_of_answers(self) -> None:
        def twice(x: Tensor) -> Tensor:
            fraction, exponent = torch.frexp(x)
            first, second = torch.linalg.qr(x)
            return rotate(torch.linalg.qr(first)[1]) + second + fraction * exponent

        result = quantize_model(Around(twice))
        assert {"linalg_qr", "linalg_qr_1", "frexp"} <= set(result.report.left)
        assert "add_1_quantizer_1" in result.report.quantizers

    def test_a_call_of_an_operator_that_others_are_written_of(self) -> None:
        """As one that is not, where the translation refuses its arguments."""

        def pool(x: Tensor) -> Tensor:
            y = nn.functional.pad(x, (1, 1, 1, 1), value=0.0)
            y = y.index_put((torch.tensor([0]),), torch.ones(()), accumulate=True)
            return torch.histc(y, 4).mean() + nn.functional.max_pool2d(y, 3, 1)

        result = quantize_model(Around(pool))
        assert not result.report.replaced
        assert "aten.histc.default" in result.report.left["histc"]
        names = {layer.name: layer.op_type for layer in result.placement.layers}
        assert names["max_pool2d"] == "MaxPool"

    def test_calls_on_complex_numbers_are_opaque_and_those_around_them_are_not(self) -> None:
        class Spectral(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inside = nn.Conv2d(16, 16, 1)

            def forward(self, x: Tensor) -> Tensor:
                window, y = torch.ones(8), torch.relu(self.inside(x))
                spectrum = torch.stft((y + x).flatten(), 8, window=window, return_complex=True)
                spectrum = torch.einsum("ft,ft->ft", spectrum.unsqueeze(0)[0], spectrum.roll(1, 1))
                return x + torch.istft(spectrum, 8, window=window).mean()

        result = quantize_model(Around(Spectral()))
        assert not result.report.replaced
        assert set(result.report.modules) == {"first", "function.inside", "second", "last"}
        with torch.no_grad():
            assert torch.isfinite(result.model(images())).all()


# ---- operators that we teach the exporter ----


def rows(x: Tensor) -> Tensor:
    return x.sort(-1)[0]


def complex_of(x: Tensor) -> Tensor:
    return torch.view_as_complex(torch.stack((x, x + 1), -1))


def put_into(target: Tensor, *place: Any, value: Any) -> Tensor:
    target = target.clone()
    target[place] = value
    return torch.view_as_real(target)


TAUGHT: dict[str, Callable[[Tensor], Tensor]] = {
    "median": lambda x: x.median(1)[0],
    "median of an even number": lambda x: x[:, :4].median(1, keepdim=True)[0],
    "median, where": lambda x: x.median(-1)[1],
    "median of all": lambda x: x.median(),
    "kthvalue": lambda x: x.kthvalue(3, dim=-2)[0],
    "kthvalue, kept": lambda x: x.kthvalue(2, keepdim=True)[0],
    "cdist": lambda x: torch.cdist(x, x + 1),
    "cdist of many": lambda x: torch.cdist(x.repeat(1, 9, 1), x.repeat(1, 9, 1) + 1),
    "cdist, p=0": lambda x: torch.cdist(x, x + 1, p=0.0),
    "cdist, p=1": lambda x: torch.cdist(x, x + 1, p=1.0),
    "cdist, p=3": lambda x: torch.cdist(x, x + 1, p=3.0),
    "cdist, p=inf": lambda x: torch.cdist(x, x + 1, p=float("inf")),
    "searchsorted": lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 0.0, 1.0]), x.round()),
    "searchsorted, rows": lambda x: torch.searchsorted(rows(x), x, right=True),
    "searchsorted, int32": lambda x: torch.searchsorted(rows(x), x, side="right", out_int32=True),
    "searchsorted, a number": lambda x: x.argmax(1) + torch.searchsorted(torch.tensor([0.0, 1.0]), 0.5),
    "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.round().cummax(1)[0],
    "cummax, where": lambda x: x.round().cummax(-1)[1],
    "cummin, where": lambda x: x.round().cummin(0)[1],
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "squeeze of an axis that stays": lambda x: x.squeeze(1) + x.squeeze(0),
    "squeeze of several": lambda x: x[:, :1].squeeze((1, 2)),
    "rrelu": lambda x: nn.functional.rrelu(x),
    "unsqueeze of complex numbers": lambda x: torch.view_as_real(complex_of(x).unsqueeze(-1)),
    "unsqueeze of complex numbers in front": lambda x: torch.view_as_real(complex_of(x).unsqueeze(1)),
    "a part of complex numbers": lambda x: put_into(
        complex_of(x), ..., slice(2, 5), value=complex_of(x)[..., :3] * 2
    ),
    "a part of an axis in front": lambda x: put_into(
        complex_of(x), slice(None), slice(1, 4, 2), value=complex_of(x)[:, :2]
    ),
    "complex zeros": lambda x: put_into(complex_of(x), ..., slice(0, 3), value=0),
    "a part of complex zeros": lambda x: put_into(
        torch.zeros_like(complex_of(x)), ..., slice(-3, None), value=complex_of(x)[..., :3]
    ),
    "a part of zeros of a size": lambda x: put_into(
        torch.zeros(x.shape[0], 4, dtype=torch.cfloat),
        slice(None),
        slice(0, 3),
        value=complex_of(x)[:, 0, :3],
    ),
    "a part of ones": lambda x: put_into(
        torch.full((x.shape[0], 4), 1 + 2j, dtype=torch.cfloat), ..., slice(3), value=complex_of(x)[:, 0, :3]
    ),
}


class All(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(x) for function in TAUGHT.values())


@pytest.fixture(scope="module")
def answers() -> Callable[[Tensor], dict[str, np.ndarray]]:
    """Return the outputs of one file of all of them, its batch open."""
    shapes = {"x": {0: torch.export.Dim("batch")}}
    program = translate(All().eval(), (torch.randn(3, 5, 7),), opset=18, dynamic_shapes=shapes)
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return lambda x: dict(
        zip(TAUGHT, session.run(None, {session.get_inputs()[0].name: x.numpy()}), strict=True)
    )


@pytest.mark.parametrize("name", TAUGHT)
def test_a_file_gives_what_pytorch_gives(name: str, answers: Any) -> None:
    x = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
    for batch in (x, -x[:2]):
        wanted, got = TAUGHT[name](batch).numpy(), answers(batch)[name]
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        assert np.allclose(got, wanted, rtol=1e-5, atol=1e-5)  # sums and products in another order


def test_such_a_model_is_exported_and_runs_in_the_engine(tmp_path: Path) -> None:
    model = quantize_model(Around(lambda x: x - x.median(1, keepdim=True)[0])).model
    report = export(model, images(), tmp_path / "m.onnx")
    assert not report.not_compared and not report.skipped
    engine = intact.compile(model, images())
    with torch.no_grad():
        assert np.allclose(engine(images().numpy()), model(images()), atol=1e-4)
