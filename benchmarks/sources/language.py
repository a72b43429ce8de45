"""Transformers, classifiers and speech."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from sources.common import Driven, absent, images, package, source


def faster_transformer(quant_utils: ModuleType, build: Any, feed: Any, mode: list[str]) -> Any:
    """The steps that its scripts for BERT, Swin and ViT share; the calibrated model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--int8-mode", type=int, default=1)
    quant_utils.add_arguments(parser)
    args = parser.parse_args(["--calibrator", "percentile", "--percentile", "99.99", *mode])
    if args.quant_mode is not None:
        args = quant_utils.set_args(args)
    quant_utils.time = SimpleNamespace(sleep=lambda seconds: None)
    quant_utils.set_default_quantizers(args)
    model = build()
    model.eval()
    quant_utils.configure_model(model, args, calib=True)
    quant_utils.enable_calibration(model)
    feed(model)
    quant_utils.finish_calibration(model, args)
    quant_utils.configure_model(model, args, calib=False)
    return model


@source("fastertransformer-bert")
def bert(folder: Path) -> Driven:
    """github.com/NVIDIA/FasterTransformer as `ft`."""
    import torch

    absent(
        "boto3",
        "botocore",
        "botocore.exceptions",
        "requests",
        "apex",
        "apex.multi_tensor_apply",
        "file_utils",
    )
    sys.path.insert(0, str(folder / "ft" / "examples" / "pytorch" / "bert" / "bert-quantization-sparsity"))
    import modeling
    import quant_utils

    config = modeling.BertConfig(
        100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    tokens = torch.randint(0, 100, (4, 16))
    inputs = (tokens, torch.zeros_like(tokens), torch.ones_like(tokens))
    torch.manual_seed(0)
    model = faster_transformer(
        quant_utils,
        lambda: modeling.BertForQuestionAnswering(config),
        lambda m: m(*inputs),
        ["--quant_mode", "ft2"],
    )
    return model, inputs, None


@source("fastertransformer-swin")
def swin(folder: Path) -> Driven:
    """github.com/NVIDIA/FasterTransformer as `ft`."""
    import torch
    from torch import nn

    absent("timm", "timm.models", "timm.models.layers")
    sys.modules["timm.models.layers"].DropPath = lambda *_: nn.Identity()
    sys.modules["timm.models.layers"].to_2tuple = lambda x: x if isinstance(x, tuple) else (x, x)
    sys.modules["timm.models.layers"].trunc_normal_ = nn.init.trunc_normal_
    sys.path.insert(0, str(folder / "ft" / "examples" / "pytorch" / "swin" / "Swin-Transformer-Quantization"))
    import quant_utils
    from models.swin_transformer import SwinTransformer

    torch.manual_seed(0)
    x = torch.randn(2, 3, 56, 56)
    model = faster_transformer(
        quant_utils,
        lambda: SwinTransformer(56, num_classes=10, embed_dim=24, depths=[2, 2], num_heads=[2, 4]),
        lambda m: m(x), [],
    )  # fmt: skip
    return model, x, None


@source("fastertransformer-vit")
def vit(folder: Path) -> Driven:
    """github.com/NVIDIA/FasterTransformer as `ft`."""
    import torch

    absent("models", "models.configs", "models.modeling_resnet", "ml_collections")
    sys.path.insert(0, str(folder / "ft" / "examples" / "pytorch" / "vit" / "ViT-quantization"))
    import quant_utils
    import vit_int8

    config = SimpleNamespace(
        patches={"size": (16, 16)}, hidden_size=48, classifier="token", representation_size=None,
        transformer={
            "mlp_dim": 96, "num_heads": 4, "num_layers": 2, "attention_dropout_rate": 0.0, "dropout_rate": 0.1
        },
    )  # fmt: skip
    config.patches, config.transformer = _Fields(config.patches), _Fields(config.transformer)
    torch.manual_seed(0)
    x = torch.randn(2, 3, 32, 32)
    model = faster_transformer(
        quant_utils, lambda: vit_int8.VisionTransformerINT8(config, 32, num_classes=10), lambda m: m(x), []
    )

    class Logits(torch.nn.Module):  # torch's exporter takes no empty list, its other output
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x)[0]

    return Logits(), x, None


class _Fields(dict[str, Any]):
    """A dictionary whose keys are attributes, as `ml_collections` has them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@source("transformer-deploy")
def transformer_deploy(folder: Path) -> Driven:
    """github.com/ELS-RD/transformer-deploy as `td`, with transformers 4.26 on the path."""
    import torch

    sys.path.insert(0, str(folder / "td" / "src"))
    import transformers

    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    from transformer_deploy.QDQModels.calibration_utils import QATCalibrate

    tokens = torch.randint(0, 100, (4, 16))
    available, torch.cuda.is_available = torch.cuda.is_available, lambda: True
    calibrator = QATCalibrate(method="histogram", percentile=99.99)
    torch.cuda.is_available = available
    torch.manual_seed(0)
    with calibrator as qat:
        model = transformers.BertForSequenceClassification(config).eval()
        qat.setup_model_qat(model)
        with torch.no_grad():
            model(tokens)
    model.config.return_dict = False
    return model, tokens, None


@source("efficientnet")
def efficientnet(folder: Path) -> Driven:
    """github.com/NVIDIA/DeepLearningExamples as `dle`."""
    import torch

    absent("dllogger")
    sys.path.insert(0, str(folder / "dle" / "PyTorch" / "Classification" / "ConvNets"))
    from image_classification import models, quantization

    quantization.time = SimpleNamespace(sleep=lambda seconds: None, time=lambda: 0.0)
    quantization.select_default_calib_method()
    torch.manual_seed(0)
    with quantization.switch_on_quantization():
        model = models.efficientnet_quant_b0(pretrained=False)
    data = [(batch[0].float() / 255, None) for batch in images(64)]
    quantization.calibrate(model, data, None, calib_iter=1)
    return model, data[0][0], None


@source("vgg16-qat")
def vgg16(folder: Path) -> Driven:
    """github.com/pytorch/TensorRT as `ttrt`: calibration, and an epoch of fine-tuning."""
    import torch
    from torch import nn

    absent("torchvision", "torchvision.transforms", "torchvision.datasets")
    absent("torch.utils.tensorboard")
    sys.path.insert(0, str(folder / "ttrt" / "examples" / "int8" / "training" / "vgg16"))
    sys.argv = ["finetune_qat.py", "--ckpt-dir", ".", "--start-from", "0", "--epochs", "1"]
    import finetune_qat as qat
    from vgg16 import vgg16 as build

    torch.manual_seed(0)
    qat.quant_modules.initialize()
    model = build(num_classes=10, init_weights=False).eval()
    pairs = torch.utils.data.TensorDataset(torch.rand(8, 3, 32, 32), torch.randint(0, 10, (8,)))
    data = torch.utils.data.DataLoader(pairs, batch_size=4)
    with torch.no_grad():
        qat.calibrate_model(model, "vgg", data, 1, "histogram", [99.9], ".")
    qat.writer = SimpleNamespace(add_scalar=lambda *_: None)
    qat.train(model, data, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 1e-4), 0)
    return model.eval(), pairs[:4][0], None


@source("nemo-jasper")
def jasper(folder: Path) -> Driven:
    """github.com/NVIDIA/NeMo as `nemo`: a block of Jasper with quantized convolutions."""
    import torch
    from torch import nn

    root = folder / "nemo" / "nemo" / "collections"
    for name in ("nemo", "nemo.collections", "nemo.core", "nemo.core.classes", "nemo.collections.common"):
        package(name)
    package("nemo.collections.common.parts")
    package("nemo.collections.common.parts.utils", activation_registry={"relu": nn.ReLU})
    package("nemo.utils", logging=SimpleNamespace())
    package(
        "nemo.core.classes.mixins",
        AccessMixin=type("AccessMixin", (), {"is_access_enabled": lambda *_: False}),
    )
    adapters = type("AdapterModuleMixin", (), {"is_adapter_available": lambda self: False})
    package("nemo.core.classes.mixins.adapter_mixins", AdapterModuleMixin=adapters)
    sys.path.insert(0, str(root / "asr" / "parts" / "submodules"))
    torch.jit.script = lambda function: function  # it reads sources, and what reads a GPU as the CPU has none
    import jasper as source_file
    from pytorch_quantization import calib
    from pytorch_quantization import nn as quant_nn
    from pytorch_quantization.tensor_quant import QuantDescriptor

    quant_nn.QuantConv1d.set_default_quant_desc_input(QuantDescriptor(calib_method="histogram"))
    torch.manual_seed(0)
    block = source_file.JasperBlock(
        16, 24, repeat=2, kernel_size=[5], stride=[1], dilation=[1], activation=nn.ReLU(),
        separable=True, se=True, residual_panes=[16], quantize=True,
    ).eval()  # fmt: skip

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: Any) -> Any:
            return self.block(([x], torch.full((2,), 40)))[0][-1]

    model, x = Net(), torch.randn(2, 16, 40)
    quantizers = [m for m in model.modules() if isinstance(m, quant_nn.TensorQuantizer)]
    for quantizer in quantizers:
        quantizer.disable_quant()
        quantizer.enable_calib()
    with torch.no_grad():
        model(x)
    for quantizer in quantizers:
        exact = isinstance(quantizer._calibrator, calib.MaxCalibrator)
        quantizer.load_calib_amax() if exact else quantizer.load_calib_amax("percentile", percentile=99.9)
        quantizer.enable_quant()
        quantizer.disable_calib()
    return model, x, None


@source("lidar-segmentation")
def salsa_next(folder: Path) -> Driven:
    """github.com/lix19937/dnn as `dnn`: SalsaNext, its quantizers shared by rules on the exported graph."""
    import torch

    absent("loguru")
    root = folder / "dnn" / "lidar_seg" / "seg" / "source"
    sys.path[:0] = [str(root), str(root / "lib" / "models" / "networks")]
    from quantization import quantize
    from salsa_next_v5 import SalsaNext

    quantize.initialize()
    torch.manual_seed(0)
    model = SalsaNext(4, "test").eval()
    quantize.replace_to_quantization_module(model)
    x = torch.rand(1, *model_channels(model), 64, 64)
    quantize.apply_custom_rules_to_quantizer(model, lambda net, file: quantize.export_onnx(net, x, file))
    quantize.calibrate_model(model, [{"input": x}] * 2, "cpu", num_batch=1)
    quantize.export_onnx(model, x, "salsa.onnx")
    return model, x, "salsa.onnx"


def model_channels(model: Any) -> tuple[int]:
    """The channels that a network's first convolution reads."""
    from torch import nn

    return (next(m.in_channels for m in model.modules() if isinstance(m, nn.Conv2d)),)


@source("super-gradients")
def super_gradients(folder: Path) -> Driven:
    """github.com/Deci-AI/super-gradients as `sg`: its patches of the toolkit, and selective quantization."""
    import logging

    import torch
    from torch import nn

    root = folder / "sg" / "src" / "super_gradients"
    package("super_gradients", root)
    package("super_gradients.training", root / "training")
    package("super_gradients.training.utils", root / "training" / "utils")
    package("super_gradients.training.utils.quantization", root / "training" / "utils" / "quantization")
    package("super_gradients.common.abstractions.abstract_logger", get_logger=logging.getLogger)
    package(
        "super_gradients.common.environment.ddp_utils", get_local_rank=lambda: -1, get_world_size=lambda: 1
    )
    utils = package("super_gradients.training.utils.utils")
    utils.infer_model_device = lambda model: next(model.parameters()).device
    sys.modules["super_gradients.training.utils"].torch_version_is_greater_or_equal = lambda *_: True
    from super_gradients.import_utils import patch_pytorch_quantization_modules_if_needed
    from super_gradients.training.utils.quantization.calibrator import QuantizationCalibrator
    from super_gradients.training.utils.quantization.core import _inject_class_methods_to_default_quant_types
    from super_gradients.training.utils.quantization.selective_quantization_utils import SelectiveQuantizer

    patch_pytorch_quantization_modules_if_needed()
    _inject_class_methods_to_default_quant_types()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 8, 2, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    ).eval()  # fmt: skip
    chosen = SelectiveQuantizer(default_quant_modules_calibrator_inputs="percentile")
    chosen.register_skip_quantization(layer_names={"3"})
    chosen.quantize_module(model)
    x = torch.rand(4, 3, 16, 16)
    QuantizationCalibrator(torch_hist=True).calibrate_model(model, [(x, None)] * 2, method="percentile")
    return model, x, None
