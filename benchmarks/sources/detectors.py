"""YOLOv5, YOLOv6, YOLOv7 and their kin."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from sources.common import Driven, absent, images, source


def yolo_packages() -> None:
    absent("torchvision", "torchvision.ops", "torchvision.utils", "pandas", "seaborn", "requests")
    absent("matplotlib", "matplotlib.pyplot", "cv2", "thop")
    sys.modules["torchvision.ops"].DeformConv2d = object


def yolov7_model(folder: Path) -> Any:
    import torch

    yolo_packages()
    sys.path.insert(0, str(folder / "yolov7"))
    from models.yolo import Model

    torch.manual_seed(0)
    return Model(str(folder / "yolov7" / "cfg" / "deploy" / "yolov7-tiny.yaml"), ch=3, nc=4).float().eval()


def yolov7_export(quantize: ModuleType) -> Callable[[Any, str], None]:
    import torch

    def export(model: Any, file: str, *_: Any) -> None:
        model.float()
        model.model[-1].concat = True
        make_grid = model.model[-1]._make_grid
        model.model[-1]._make_grid = lambda *args: torch.from_numpy(make_grid(*args).data.numpy())
        quantize.export_onnx(
            model, torch.zeros(1, 3, 64, 64), file, opset_version=13,
            input_names=["images"], output_names=["outputs"],
        )  # fmt: skip
        model.model[-1]._make_grid = make_grid

    return export


def tune_a_little(quantize: ModuleType, model: Any) -> None:
    quantize.finetune(
        model, images(64), nepochs=1, early_exit_batchs_per_epoch=2,
        preprocess=lambda data: data[0].float() / 255.0,
        supervision_policy=lambda name, module: name.count(".") == 1 and name != "model.77",
    )  # fmt: skip


@source("yolov7-qat")
def yolov7(folder: Path) -> Driven:
    """github.com/NVIDIA-AI-IOT/yolo_deepstream as `yolo_deepstream`, WongKinYiu/yolov7 as `yolov7`."""
    sys.path.insert(0, str(folder / "yolo_deepstream" / "yolov7_qat"))
    model = yolov7_model(folder)
    from quantization import quantize

    quantize.initialize()
    export = yolov7_export(quantize)
    quantize.replace_to_quantization_module(model, ignore_policy=r"model\.77\.m\.(.*)")
    quantize.apply_custom_rules_to_quantizer(model, export)
    quantize.calibrate_model(model, images(64), "cpu", num_batch=2)
    tune_a_little(quantize, model)
    export(model, "yolov7.onnx")
    return model, images(64)[0][0][:1].float() / 255, "yolov7.onnx"


@source("yolov5-qat-cudla")
def yolov5(folder: Path) -> Driven:
    """github.com/NVIDIA-AI-IOT/cuDLA-samples as `cudla`, on the network of `yolov7`."""
    import torch

    sys.path.insert(0, str(folder / "cudla" / "export" / "yolov5-qat"))
    model = yolov7_model(folder)
    from quantization import quantize

    quantize.initialize(all_node_with_qdq=True)
    quantize.replace_to_quantization_module(model, r"model\.77\.m\.(.*)", all_node_with_qdq=True)
    quantize.calibrate_model(model, images(64), "cpu", num_batch=2)
    tune_a_little(quantize, model)
    model.model[-1].concat = True
    return model, torch.rand(1, 3, 64, 64), None


def yolov6_like(root: Path, config: str) -> tuple[Any, Any]:
    import torch

    yolo_packages()
    from packaging import version
    from torch import nn

    def convolution(inputs: int, outputs: int, kernel_size: int, **_: Any) -> Any:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel_size, bias=False), nn.BatchNorm2d(outputs))

    absent("pkg_resources", parse_version=version.parse)

    def norm(_: Any, channels: int) -> Any:
        return "bn", nn.BatchNorm2d(channels)

    absent("mmcv", "mmcv.cnn", build_norm_layer=norm, ConvModule=convolution)
    absent("pycocotools", "pycocotools.coco", "pycocotools.cocoeval")
    sys.path.insert(0, str(root))
    from yolov6.layers.common import RepVGGBlock
    from yolov6.models.yolo import build_model
    from yolov6.utils.config import Config
    from yolov6.utils.torch_utils import fuse_model

    torch.manual_seed(0)
    settings = Config.fromfile(str(root / "configs" / config))
    settings.training_mode = settings._cfg_dict.get("training_mode", "repvgg")  # as its training script does
    model = build_model(settings, 4, "cpu").eval()
    model = fuse_model(model).eval()
    for layer in model.modules():  # as its scripts do before they quantize
        if isinstance(layer, RepVGGBlock):
            layer.switch_to_deploy()
    return model, settings


@source("yolov6-ptq")
def yolov6_ptq(folder: Path) -> Driven:
    """github.com/meituan/YOLOv6 as `YOLOv6`: partial quantization."""
    import torch

    model, _ = yolov6_like(folder / "YOLOv6", "yolov6n.py")
    from tools.partial_quantization.ptq import do_ptq, load_ptq, partial_quant

    quantized = do_ptq(model, images(64), 2, "cpu")
    torch.save({"model": quantized}, "calibrated.pt")
    load = torch.load
    torch.load = lambda *args, **kwargs: load(*args, **{"weights_only": False, **kwargs})
    quantized = load_ptq(model, "calibrated.pt", "cpu")
    partial_quant(
        quantized, [n for n, _ in quantized.named_modules() if not n.startswith("detect.reg_preds")]
    )
    quantized.export = True
    return quantized, torch.rand(1, 3, 64, 64), None


def yolov6_like_qat(root: Path, config: str) -> Driven:
    import torch

    model, _ = yolov6_like(root, config)
    from pytorch_quantization import nn as quant_nn
    from tools.qat.qat_utils import ptq_calibrate, qat_init_model_manu, skip_sensitive_layers

    ptq = SimpleNamespace(
        num_bits=8, calib_method="histogram", sensitive_layers_skip=True,
        sensitive_layers_list=["detect.proj_conv"], calib_batches=2,
        histogram_amax_method="entropy", histogram_amax_percentile=99.99,
    )  # fmt: skip
    qat_init_model_manu(model, SimpleNamespace(ptq=ptq), SimpleNamespace(calib=True))
    for part in ("upsample_feat0_quant", "upsample_feat1_quant"):
        if hasattr(model.neck, part):
            setattr(model.neck, part, quant_nn.TensorQuantizer(quant_nn.QuantConv2d.default_quant_desc_input))
    ptq_calibrate(model, images(64), SimpleNamespace(ptq=ptq))
    skip_sensitive_layers(model, ["detect.reg_preds.0"])
    model.export = True
    return model, torch.rand(1, 3, 64, 64), None


@source("yolov6-qat")
def yolov6_qat(folder: Path) -> Driven:
    """github.com/meituan/YOLOv6 as `YOLOv6`: quantization-aware training."""
    return yolov6_like_qat(folder / "YOLOv6", "yolov6n.py")


@source("gold-yolo")
def gold_yolo(folder: Path) -> Driven:
    """github.com/huawei-noah/Efficient-Computing as `gold`."""
    return yolov6_like_qat(folder / "gold" / "Detection" / "Gold-YOLO", "gold_yolo-n.py")
