"""`torch.compile(model, backend="intact")`: parts with quantizers run in the engine, others in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
import intact.torch
from intact.engine import Engine
from intact.errors import QuantValueError
from intact.torch import calibrate, replace_modules
from intact.torch.dynamo import backend as dynamo


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    torch._dynamo.reset()
    dynamo.register()
    yield
    torch._dynamo.reset()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """The engine of every run."""
    engines: list[Engine] = []
    run = Engine.run
    monkeypatch.setattr(Engine, "run", lambda self, *args: engines.append(self) or run(self, *args))
    return engines


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        return self.head(x.reshape(x.shape[0], 8, -1).mean(2))


def small() -> nn.Module:
    torch.manual_seed(0)
    model = Small().eval()
    replace_modules(model)
    calibrate(model, [images(4)], method="max")
    return model


def images(count: int) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(count))


def test_it_is_the_engine_of_intact_compile_for_any_batch_and_after_training(runs: list[Engine]) -> None:
    model = small()
    compiled, engine = torch.compile(model, backend="intact"), intact.compile(model, images(4))
    with torch.no_grad():
        for count in (4, 3, 7):
            assert np.array_equal(compiled(images(count)), engine(images(count)))
        assert len({id(used) for used in runs} - {id(engine)}) == 2, "from the second size on, sizes are open"
        before = compiled(images(4))
        model.first.weight.mul_(0.5)
        again = compiled(images(4))
        assert not torch.equal(again, before)
        torch.testing.assert_close(again, model(images(4)), rtol=0, atol=1e-5)


def test_in_training_it_stays_in_pytorch_and_says_so(runs: list[Engine]) -> None:
    model = small()
    compiled = torch.compile(model, backend="intact")
    with pytest.warns(UserWarning, match=r"grad mode is on.*Fix: .*torch\.no_grad\(\)"):
        compiled(images(4)).sum().backward()
    assert model.head.weight.grad is not None
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match=r"writes into its inputs.*Fix: call model\.eval\(\)"),
    ):
        compiled(images(4)) if model.train() else None
    assert runs == []


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.into = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        h = self.words(ids)
        q, k, v = self.into(h).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        h = self.norm(h + self.out(a.transpose(1, 2).flatten(2)))
        torch._dynamo.graph_break()
        return h.tanh()


def test_attention_with_a_break_behind_it(runs: list[Engine]) -> None:
    torch.manual_seed(0)
    ids, mask = torch.randint(0, 20, (2, 5)), torch.ones(2, 5, dtype=torch.bool)
    model = Attention().eval()
    replace_modules(model)
    calibrate(model, [((ids, mask),)], method="max")
    compiled = torch.compile(model, backend="intact", options={"threads": 1})
    with torch.inference_mode():
        outputs = compiled(ids, mask)
        assert runs and {engine.threads for engine in runs} == {1}
        torch.testing.assert_close(outputs, model(ids, mask), rtol=0, atol=1e-5)


def test_a_number_that_dynamo_leaves_open_is_not_the_one_of_the_first_call() -> None:
    class Times(nn.Linear):
        def forward(self, x: Tensor, times: int = 1) -> Tensor:
            return super().forward(intact.torch.fake_quantize(x, 4.0)) * times

    torch.manual_seed(0)
    model, x = Times(4, 4), torch.randn(2, 4)
    compiled = torch.compile(model, backend="intact")
    with torch.no_grad():
        for times in (1, 2, 3):
            torch.testing.assert_close(compiled(x, times), model(x, times))


def test_what_has_no_engine_runs_in_pytorch_and_says_why() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    replace_modules(model)  # no ranges: those of each batch
    x = torch.randn(2, 4)
    with torch.no_grad(), pytest.warns(UserWarning, match="runs in PyTorch.*constant"):
        assert torch.equal(torch.compile(model, backend="intact")(x), model(x))
    with pytest.raises(QuantValueError, match=r"option 'speed'.*threads"):
        dynamo.backend(torch.fx.symbolic_trace(nn.ReLU()), [x], options={"speed": 9})
