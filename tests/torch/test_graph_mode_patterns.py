"""Graph mode on how real models are written: each block is a pattern of a well-known library, made small."""

from __future__ import annotations

import copy
import functools
import inspect
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from intact.errors import QuantValueError
from intact.torch import export, load_checkpoint, quantize, save_checkpoint
from intact.torch import nn as quant_nn

WIDTH, HEADS, WORDS = 64, 4, 20


class SelfAttention(nn.Module):
    """As transformers writes it: the function is chosen by a name."""

    def __init__(self, kind: str = "sdpa") -> None:
        super().__init__()
        self.kind, self.drop = kind, 0.1
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        shape = (*hidden.shape[:-1], HEADS, WIDTH // HEADS)
        q, k, v = (f(hidden).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        drop = self.drop if self.training else 0.0
        if self.kind == "sdpa":
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)
        else:
            scores = torch.matmul(q, k.transpose(2, 3)) * (WIDTH // HEADS) ** -0.5 + mask
            context = torch.matmul(F.dropout(F.softmax(scores, dim=-1), p=drop), v)
        return context.transpose(1, 2).reshape(*hidden.shape).contiguous(), None


class Layer(nn.Module):
    def __init__(self, kind: str = "sdpa") -> None:
        super().__init__()
        self.attention, self.output = SelfAttention(kind), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Dropout(0.1)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        attended = self.attention(hidden, mask)[0]
        hidden = self.norm1(self.dropout(self.output(attended)) + hidden)
        return self.norm2(self.dropout(self.down(F.gelu(self.up(hidden)))) + hidden)


class Encoder(nn.Module):
    """Keyword inputs, a mask made by item assignment, an answer that is a dictionary."""

    def __init__(self, kind: str = "sdpa", *, checkpointing: bool = False) -> None:
        super().__init__()
        self.words, self.checkpointing = nn.Embedding(99, WIDTH), checkpointing
        self.layers = nn.ModuleList([Layer(kind)])
        self.classifier = nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> OrderedDict[str, Tensor]:
        mask = torch.zeros(input_ids.shape[0], 1, input_ids.shape[1], input_ids.shape[1])
        if attention_mask is not None:
            mask[:, :, :, :] = (1.0 - attention_mask[:, None, None, :].to(mask.dtype)) * -1e4
        hidden = self.words(input_ids)
        for layer in self.layers:
            if self.checkpointing and self.training:
                hidden = checkpoint(layer, hidden, mask, use_reentrant=False)
            else:
                hidden = layer(hidden, mask)
        return OrderedDict(last_hidden_state=hidden, logits=self.classifier(hidden[:, 0]))


class BatchNormAct(nn.BatchNorm2d):
    """As timm's: batch norm is a function here, and counts its batches itself."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
        x = F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, 0.1, self.eps
        )
        return self.act(x)


class DropPath(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(0.5).div_(0.5)


class Cnn(nn.Module):
    """Functional batch norm, stochastic depth, a tensor made in forward, ``y += x``."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn0 = nn.Conv2d(3, 16, 3, padding=1, bias=False), BatchNormAct(16)
        self.conv1, self.bn1 = nn.Conv2d(16, 16, 3, padding=1, bias=False), BatchNormAct(16)
        self.conv2, self.path, self.head = nn.Conv2d(16, 16, 3, padding=1), DropPath(), nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn0(self.stem(x * torch.tensor([2.0])))
        y = self.path(self.conv2(self.bn1(self.conv1(x))))
        y += x
        return self.head(F.relu(y)).mean((2, 3))


class C2f(nn.Module):
    """As every YOLO since the fifth."""

    def __init__(self) -> None:
        super().__init__()
        self.cv1, self.cv2 = nn.Conv2d(16, 32, 1), nn.Conv2d(64, 16, 1)
        self.m = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.cv1(x).chunk(2, 1))
        y.extend(m(y[-1]) for m in self.m)
        return self.cv2(torch.cat(y, 1))


class DiT(nn.Module):
    """A transformer block whose norms are modulated by a condition (adaLN)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, elementwise_affine=False) for _ in range(2))
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

    def attention(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(c)[:, None].chunk(6, dim=-1)
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class CrossAttention(nn.Module):
    """PyTorch's own attention, with the same and with other keys, once with its weights as an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.cross = (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = x + self.own(x, x, x, need_weights=False)[0]
        return self.last(x + self.cross(x, memory, memory)[0])


class Moody(nn.Module):
    """Makes more products in training mode, in front of the one that is quantized."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, *, twice: bool = False) -> Tensor:
        q, k = self.q(x), self.k(x)
        if self.training:
            q = q + 0 * torch.matmul(torch.matmul(q, k.mT), k)
        if twice:
            q = torch.matmul(q, torch.eye(WIDTH))
        return self.o(torch.matmul(q, k.mT) @ x)


class Tied(nn.Module):
    """Runs one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = Layer(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(1, 1, WORDS, WORDS)
        return self.last(self.layer(self.layer(x, mask), mask))


def sentence() -> dict[str, Tensor]:
    mask = torch.ones(2, WORDS, dtype=torch.long)
    mask[1, -3:] = 0
    return {"input_ids": torch.randint(0, 99, (2, WORDS)), "attention_mask": mask}


def hidden_states() -> Tensor:
    return torch.randn(2, WORDS, WIDTH)


NETS: dict[str, tuple[Any, Any]] = {
    "encoder": (Encoder, sentence),
    "encoder by hand": (lambda: Encoder("eager"), sentence),
    "cnn": (Cnn, lambda: torch.randn(4, 3, 16, 16)),
    "c2f": (C2f, lambda: torch.randn(2, 16, 8, 8)),
    "dit": (DiT, lambda: (hidden_states(), torch.randn(2, WIDTH))),
    "cross attention": (CrossAttention, lambda: (hidden_states(), hidden_states())),
    "tied": (Tied, hidden_states),
}


@functools.cache
def _quantize_once(net: str) -> tuple[Any, Any, nn.Module]:
    torch.manual_seed(0)
    make, example = NETS[net]
    model, x = make().eval(), example()
    return quantize(model, [(x,) if isinstance(x, tuple) else x], method="max", progress=False), x, model


def quantize_net(net: str) -> tuple[Any, Any, nn.Module]:
    """A result of its own for every test; an export takes seconds, so each is made once."""
    result, x, model = _quantize_once(net)
    return replace(result, model=copy.deepcopy(result.model)), x, model


def call(model: nn.Module, x: Any) -> Tensor:
    answer = model(**x) if isinstance(x, dict) else model(*x) if isinstance(x, tuple) else model(x)
    return answer["logits"] if isinstance(answer, dict) else answer


def activations(model: nn.Module) -> set[str]:
    precisions = {
        n for n, m in model.named_modules() if isinstance(m, quant_nn.TensorQuantizer) and not m._disabled
    }
    return {name for name in precisions if not name.endswith("weight_quantizer")}


@pytest.mark.parametrize("net", NETS)
class TestEveryPattern:
    def test_nothing_falls_back_and_the_file_has_the_modules_codes(self, net: str, tmp_path: Path) -> None:
        result, x, _ = quantize_net(net)
        assert not result.report.replaced
        report = export(result.model, x, tmp_path / "m.onnx")
        assert report.codes > 0 and report.codes_differing <= 1e-4 * report.codes
        assert all(q.largest <= 1 and q.boundary < 1e-3 for q in report.quantizers), "at boundaries alone"
        assert not report.not_compared

    def test_parameters_keep_their_names_and_a_checkpoint_restores_everything(
        self, net: str, tmp_path: Path
    ) -> None:
        result, x, model = quantize_net(net)
        assert set(model.state_dict()) <= set(result.model.state_dict())
        assert isinstance(result.model, type(model))
        save_checkpoint(result.model, tmp_path / "m.safetensors")
        restored = load_checkpoint(copy.deepcopy(model), tmp_path / "m.safetensors").eval()
        assert torch.equal(call(restored, x), call(result.model, x))

    def test_twenty_steps_lower_the_loss(self, net: str) -> None:
        result, x, _ = quantize_net(net)
        model = result.model.train()
        optimizer = torch.optim.Adam(model.parameters(), 1e-3)
        torch.manual_seed(1)
        wanted = torch.randn_like(call(model, x))
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(call(model, x), wanted)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        assert sum(losses[-3:]) < sum(losses[:3])


def test_products_of_attention_are_quantized_inside_one_call_of_pytorch() -> None:
    result, _, _ = quantize_net("encoder")
    path = "layers.0.attention."
    assert {n.removeprefix(path) for n in activations(result.model) if n.startswith(path)} == {
        "query_input_quantizer", "view_quantizer", "view_1_quantizer", "view_2_quantizer",
        "scaled_dot_product_attention_matmul_quantizer_0", "scaled_dot_product_attention_matmul_quantizer_1",
        "scaled_dot_product_attention_matmul_1_quantizer", "transpose_3_quantizer",
    }  # fmt: skip


def test_training_mode_is_the_models_own() -> None:
    result, x, _ = quantize_net("cnn")
    model = result.model.train()
    before = model.bn1.running_mean.clone(), int(model.bn1.num_batches_tracked)
    answers = [model(x) for _ in range(4)]
    assert not all(torch.equal(answers[0], answer) for answer in answers[1:]), "stochastic depth"
    assert not torch.equal(model.bn1.running_mean, before[0])
    assert int(model.bn1.num_batches_tracked) == before[1] + 4


def test_the_signature_is_the_models_own() -> None:
    result, _, _ = quantize_net("encoder")
    assert list(inspect.signature(result.model.forward).parameters) == ["input_ids", "attention_mask"]


def test_sizes_may_differ_from_the_examples() -> None:
    result, _, _ = quantize_net("encoder")
    answer = result.model(torch.randint(0, 99, (5, 7)), attention_mask=torch.ones(5, 7).long())
    assert answer["logits"].shape == (5, 3)
    assert result.model(torch.randint(0, 99, (1, 9)))["logits"].shape == (1, 3), "without the mask"


def test_activation_checkpointing_runs_the_quantizers_again() -> None:
    torch.manual_seed(0)
    model, x = Encoder(checkpointing=True).eval(), sentence()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, SelfAttention):
            module.drop = 0.0
    model = quantize(model, [x], method="max", progress=False).model.train()
    gradients = []
    for model.checkpointing in (False, True):
        model.zero_grad()
        model(**x)["logits"].sum().backward()
        gradients.append(model.layers[0].attention.query.weight.grad.clone())
    torch.testing.assert_close(*gradients)


def test_each_run_of_a_shared_layer_has_quantizers_of_its_own() -> None:
    result, _, _ = quantize_net("tied")
    names = activations(result.model)
    assert {"layer.up_input_quantizer", "layer.up_1_input_quantizer"} <= names


def test_compiled_as_one_graph() -> None:
    result, x, _ = quantize_net("encoder")
    compiled = torch.compile(result.model, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(call(compiled, x), call(result.model, x))


class Repeats(nn.Module):
    """The same line multiplies once, and twice in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(2 if self.training else 1):
            x = torch.tanh(x @ x.transpose(1, 2) @ x)
        return self.last(x)


class TestCallsThatDiffer:
    def moody(self) -> tuple[Any, Tensor]:
        torch.manual_seed(0)
        x = hidden_states()
        return quantize(Moody().eval(), [x], method="max", progress=False), x

    def test_a_function_that_is_called_more_often_in_training_is_left_alone(self) -> None:
        torch.manual_seed(0)
        x = hidden_states()
        result = quantize(Repeats().eval(), [x], method="max", progress=False)
        reasons = {why for call, why in result.report.left.items() if call.startswith("matmul@forward")}
        assert reasons == {"'matmul' is called another number of times in training mode"}
        result.model.train()(x)

    def test_one_that_is_called_elsewhere_in_training_is_known_by_its_place(self) -> None:
        result, x = self.moody()
        assert not any("another number" in why for why in result.report.left.values())
        result.model.train()(x)

    def test_a_run_with_other_calls_is_refused(self) -> None:
        torch.manual_seed(0)
        x = hidden_states()
        model = Moody().eval()
        model.train = lambda mode=True: nn.Module.train(model, False)  # type: ignore[method-assign]
        result = quantize(model, [x], method="max", progress=False, inplace=True)
        with pytest.raises(QuantValueError, match="got 3 calls of 'matmul', want 2"):
            result.model(x, twice=True)
