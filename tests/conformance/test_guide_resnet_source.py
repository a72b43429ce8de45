"""The pytorch-quantization guide, "Further optimization": its edit of resnet.py, under alias().

The listings are fragments. Names that they use and do not define are given to them; ``# other code...`` is a
convolution here. examples/resnet.py is the edited file whole, and has the signatures of the fragments.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, List, Optional, Type, Union  # noqa: UP035

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("old_name")

RESNET_HEADS = """
def resnet50(pretrained: bool = False, progress: bool = True, quantize: bool = False, **kwargs: Any) -> ResNet:
    return _resnet('resnet50', Bottleneck, [3, 4, 6, 3], pretrained, progress, quantize, **kwargs)
def _resnet(arch: str, block: Type[Union[BasicBlock, Bottleneck]], layers: List[int], pretrained: bool, progress: bool,
            quantize: bool, **kwargs: Any) -> ResNet:
    model = ResNet(block, layers, quantize, **kwargs)
class ResNet(nn.Module):
    def __init__(self,
                 block: Type[Union[BasicBlock, Bottleneck]],
                 layers: List[int],
                 quantize: bool = False,
                 num_classes: int = 1000,
                 zero_init_residual: bool = False,
                 groups: int = 1,
                 width_per_group: int = 64,
                 replace_stride_with_dilation: Optional[List[bool]] = None,
                 norm_layer: Optional[Callable[..., nn.Module]] = None) -> None:
        super(ResNet, self).__init__()
        self._quantize = quantize
"""  # noqa: E501

CONVOLUTIONS = '''
def conv3x3(in_planes: int,
            out_planes: int,
            stride: int = 1,
            groups: int = 1,
            dilation: int = 1,
            quantize: bool = False) -> nn.Conv2d:
    """3x3 convolution with padding"""
    if quantize:
        return quant_nn.QuantConv2d(in_planes,
                                    out_planes,
                                    kernel_size=3,
                                    stride=stride,
                                    padding=dilation,
                                    groups=groups,
                                    bias=False,
                                    dilation=dilation)
    else:
        return nn.Conv2d(in_planes,
                         out_planes,
                         kernel_size=3,
                         stride=stride,
                         padding=dilation,
                         groups=groups,
                         bias=False,
                         dilation=dilation)
def conv1x1(in_planes: int, out_planes: int, stride: int = 1, quantize: bool = False) -> nn.Conv2d:
    """1x1 convolution"""
    if quantize:
        return quant_nn.QuantConv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)
    else:
        return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)
'''

BLOCK_INIT = """
def __init__(self,
             inplanes: int,
             planes: int,
             stride: int = 1,
             downsample: Optional[nn.Module] = None,
             groups: int = 1,
             base_width: int = 64,
             dilation: int = 1,
             norm_layer: Optional[Callable[..., nn.Module]] = None,
             quantize: bool = False) -> None:
    # other code...
    self._quantize = quantize
    if self._quantize:
        self.residual_quantizer = quant_nn.TensorQuantizer(quant_nn.QuantConv2d.default_quant_desc_input)
"""
BLOCK_FORWARD = """
def forward(self, x: Tensor) -> Tensor:
    # other code...
    if self._quantize:
        out += self.residual_quantizer(identity)
    else:
        out += identity
    out = self.relu(out)

    return out
"""
OTHER_CODE = "# other code..."
OTHER_INIT = """nn.Module.__init__(self)
    self.conv = conv3x3(inplanes, planes, stride, quantize=quantize)
    self.relu = nn.ReLU()"""
OTHER_FORWARD = "out, identity = self.conv(x), x"


def run(listing: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names that `listing` leaves behind when it is run with those of `names`."""
    exec(compile(listing, "<guide>", "exec"), names)
    return names


def test_heads_of_the_quantized_resnet(example):
    inputs = {"nn": nn, "Any": Any, "Type": Type, "Union": Union, "List": List, "Optional": Optional}  # noqa: UP006
    blocks = {"BasicBlock": nn.Module, "Bottleneck": nn.Module, "ResNet": nn.Module, "Callable": Callable}
    names = run(RESNET_HEADS, {**inputs, **blocks})
    assert names["ResNet"](nn.Module, [3, 4, 6, 3], True)._quantize is True
    names["resnet50"](quantize=True)
    want = list(inspect.signature(names["ResNet"]).parameters)
    assert list(inspect.signature(example("resnet").ResNet).parameters) == want


@pytest.mark.parametrize("quantize", [False, True])
def test_block_with_a_residual_quantizer(example, quantize):
    from pytorch_quantization import nn as quant_nn

    names = {
        "nn": nn,
        "Tensor": torch.Tensor,
        "Optional": Optional,
        "Callable": Callable,
        "quant_nn": quant_nn,
    }
    run(CONVOLUTIONS, names)
    conv = quant_nn.QuantConv2d if quantize else nn.Conv2d
    for result in (names["conv3x3"](4, 4, quantize=quantize), names["conv1x1"](4, 4, quantize=quantize)):
        assert type(result) is conv
    run(BLOCK_INIT.replace(OTHER_CODE, OTHER_INIT), names)
    run(BLOCK_FORWARD.replace(OTHER_CODE, OTHER_FORWARD), names)
    members = {"__init__": names["__init__"], "forward": names["forward"]}
    block, x = type("Block", (nn.Module,), members)(4, 4, quantize=quantize), torch.randn(1, 4, 5, 5)
    identity = block.residual_quantizer(x) if quantize else x
    assert torch.equal(block(x), torch.relu(block.conv(x) + identity))
    assert torch.equal(identity, x) == (not quantize)
    ours = example("resnet").BasicBlock
    assert list(inspect.signature(ours.__init__).parameters) == list(
        inspect.signature(names["__init__"]).parameters
    )
    assert hasattr(ours(4, 4, quantize=quantize), "residual_quantizer") == quantize
