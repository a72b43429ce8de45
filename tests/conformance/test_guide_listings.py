"""The pytorch-quantization guide, first part: functions, descriptors and modules, under alias().

Each listing is run as it stands. Names that it uses and does not define are given to it. One line differs:
descriptors of transposed convolutions have axis 1 (the library's own constants have; the guide prints 0).
The walk through ResNet-50 and export: test_guide_resnet50.py; its source: test_guide_resnet_source.py.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import pooling

pytestmark = pytest.mark.usefixtures("old_name")

QUANTIZATION_FUNCTION = """
from pytorch_quantization import tensor_quant

# Generate random input. With fixed seed 12345, x should be
# tensor([0.9817, 0.8796, 0.9921, 0.4611, 0.0832, 0.1784, 0.3674, 0.5676, 0.3376, 0.2119])
torch.manual_seed(12345)
x = torch.rand(10)

# fake quantize tensor x. fake_quant_x will be
# tensor([0.9843, 0.8828, 0.9921, 0.4609, 0.0859, 0.1797, 0.3672, 0.5703, 0.3359, 0.2109])
fake_quant_x = tensor_quant.fake_tensor_quant(x, x.abs().max())

# quantize tensor x. quant_x will be
# tensor([126., 113., 127.,  59.,  11.,  23.,  47.,  73.,  43.,  27.])
# with scale=128.0057
quant_x, scale = tensor_quant.tensor_quant(x, x.abs().max())
"""
X = [0.9817, 0.8796, 0.9921, 0.4611, 0.0832, 0.1784, 0.3674, 0.5676, 0.3376, 0.2119]
FAKE_QUANT_X = [0.9843, 0.8828, 0.9921, 0.4609, 0.0859, 0.1797, 0.3672, 0.5703, 0.3359, 0.2109]
QUANT_X = [126, 113, 127, 59, 11, 23, 47, 73, 43, 27]

DESCRIPTOR_AND_QUANTIZER = """
from pytorch_quantization.tensor_quant import QuantDescriptor
from pytorch_quantization.nn.modules.tensor_quantizer import TensorQuantizer
import torch

quant_desc = QuantDescriptor(num_bits=4, fake_quant=False, axis=(0), unsigned=True)
quantizer = TensorQuantizer(quant_desc)

torch.manual_seed(12345)
x = torch.rand(10, 9, 8, 7)

quant_x = quantizer(x)
"""
FIRST_ROWS = [[15, 13, 15, 1, 3, 6], [9, 5, 3, 12, 14, 4], [3, 7, 11, 5, 10, 6]]  # the ends of each row
LAST_ROWS = [[8, 1, 6, 7, 11, 10], [7, 5, 13, 3, 7, 14], [14, 10, 11, 2, 14, 9]]

QUANTIZED_MODULE = """
from torch import nn

from pytorch_quantization import tensor_quant
import pytorch_quantization.nn as quant_nn

# pytorch's module
fc1 = nn.Linear(in_features, out_features, bias=True)
conv1 = nn.Conv2d(in_channels, out_channels, kernel_size)

# quantized version
quant_fc1 = quant_nn.Linear(
    in_features, out_features, bias=True,
    quant_desc_input=tensor_quant.QUANT_DESC_8BIT_PER_TENSOR,
    quant_desc_weight=tensor_quant.QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW)
quant_conv1 = quant_nn.Conv2d(
    in_channels, out_channels, kernel_size,
    quant_desc_input=tensor_quant.QUANT_DESC_8BIT_PER_TENSOR,
    quant_desc_weight=tensor_quant.QUANT_DESC_8BIT_CONV2D_WEIGHT_PER_CHANNEL)
"""

PREDEFINED = """
QUANT_DESC_8BIT_PER_TENSOR = QuantDescriptor(num_bits=8)
QUANT_DESC_UNSIGNED_8BIT_PER_TENSOR = QuantDescriptor(num_bits=8, unsigned=True)
QUANT_DESC_8BIT_CONV1D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=(0))
QUANT_DESC_8BIT_CONV2D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=(0))
QUANT_DESC_8BIT_CONV3D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=(0))
QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW = QuantDescriptor(num_bits=8, axis=(0))
QUANT_DESC_8BIT_CONVTRANSPOSE1D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=(0))
QUANT_DESC_8BIT_CONVTRANSPOSE2D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=(0))
QUANT_DESC_8BIT_CONVTRANSPOSE3D_WEIGHT_PER_CHANNEL = QuantDescriptor(num_bits=8, axis=(0))
"""

MAXPOOL_PIECES = [
    """
class QuantMaxPool2d(pooling.MaxPool2d, _utils.QuantInputMixin):
""",
    """
def __init__(self, kernel_size, stride=None, padding=0, dilation=1,
             return_indices=False, ceil_mode=False, **kwargs):
    super(QuantMaxPool2d, self).__init__(kernel_size, stride, padding, dilation,
                                         return_indices, ceil_mode)
    quant_desc_input = _utils.pop_quant_desc_in_kwargs(self.__class__, input_only=True, **kwargs)
    self.init_quantizer(quant_desc_input)
""",
    """
def forward(self, input):
    quant_input = self._input_quantizer(input)
    return super(QuantMaxPool2d, self).forward(quant_input)
""",
    """
@property
def input_quantizer(self):
    return self._input_quantizer
""",
]
MAXPOOL = '''
class QuantMaxPool2d(pooling.MaxPool2d, _utils.QuantInputMixin):
    """Quantized 2D maxpool"""
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1,
                return_indices=False, ceil_mode=False, **kwargs):
        super(QuantMaxPool2d, self).__init__(kernel_size, stride, padding, dilation,
                                            return_indices, ceil_mode)
        quant_desc_input = _utils.pop_quant_desc_in_kwargs(self.__class__, input_only=True, **kwargs)
        self.init_quantizer(quant_desc_input)

    def forward(self, input):
        quant_input = self._input_quantizer(input)
        return super(QuantMaxPool2d, self).forward(quant_input)

    @property
    def input_quantizer(self):
        return self._input_quantizer
'''

LINEAR_PIECES = [
    """
class QuantLinear(nn.Linear, _utils.QuantMixin):
""",
    """
def __init__(self, in_features, out_features, bias=True, **kwargs):
        super(QuantLinear, self).__init__(in_features, out_features, bias)
        quant_desc_input, quant_desc_weight = _utils.pop_quant_desc_in_kwargs(self.__class__, **kwargs)

        self.init_quantizer(quant_desc_input, quant_desc_weight)
""",
    """
def forward(self, input):
    quant_input = self._input_quantizer(input)
    quant_weight = self._weight_quantizer(self.weight)

    output = F.linear(quant_input, quant_weight, bias=self.bias)

    return output
""",
    """
@property
def input_quantizer(self):
    return self._input_quantizer

@property
def weight_quantizer(self):
    return self._weight_quantizer
""",
]
LINEAR = """
class QuantLinear(nn.Linear, _utils.QuantMixin):

    def __init__(self, in_features, out_features, bias=True, **kwargs):
        super(QuantLinear, self).__init__(in_features, out_features, bias)
        quant_desc_input, quant_desc_weight = _utils.pop_quant_desc_in_kwargs(self.__class__, **kwargs)

        self.init_quantizer(quant_desc_input, quant_desc_weight)

    def forward(self, input):
        quant_input = self._input_quantizer(input)
        quant_weight = self._weight_quantizer(self.weight)

        output = F.linear(quant_input, quant_weight, bias=self.bias)

        return output

    @property
    def input_quantizer(self):
        return self._input_quantizer

    @property
    def weight_quantizer(self):
        return self._weight_quantizer
"""

DIRECT = """
test_input = torch.randn(1, 5, 5, 5, dtype=torch.double)

quantizer = TensorQuantizer(quant_nn.QuantLinear.default_quant_desc_input)

quant_input = quantizer(test_input)

out = F.adaptive_avg_pool2d(quant_input, 3)
"""


def run(listing: str, **inputs: Any) -> dict[str, Any]:
    """The names that `listing` leaves behind when it is run with those of `given`."""
    exec(compile(listing, "<guide>", "exec"), inputs)
    return inputs


def assemble(pieces: list[str]) -> str:
    """A class from its head and its methods, which the guide explains one by one."""
    return pieces[0] + "".join(textwrap.indent(piece, "    ") for piece in pieces[1:])


def test_quantization_function():
    names = run(QUANTIZATION_FUNCTION, torch=torch)
    np.testing.assert_allclose(names["x"], X, atol=5e-5)
    np.testing.assert_allclose(names["fake_quant_x"], FAKE_QUANT_X, atol=5e-5)
    assert names["quant_x"].tolist() == QUANT_X
    assert f"{names['scale']:.4f}" == "128.0057"


def test_signatures_take_what_the_guide_names():
    from pytorch_quantization import tensor_quant

    x = torch.linspace(-1, 1, 9)
    for function in (tensor_quant.tensor_quant, tensor_quant.fake_tensor_quant):
        function(x, x.abs().max(), 8, False)  # inputs, amax, num_bits, unsigned: positional in 2.2.1


def test_descriptor_and_quantizer():
    quant_x = run(DESCRIPTOR_AND_QUANTIZER)["quant_x"]
    assert quant_x.shape == (10, 9, 8, 7)
    ends = [0, 1, 2, -3, -2, -1]
    assert quant_x[0, 0, :3][:, ends].tolist() == FIRST_ROWS
    assert quant_x[-1, -1, -3:][:, ends].tolist() == LAST_ROWS


def test_descriptor_has_the_documented_properties():
    from pytorch_quantization.tensor_quant import QuantDescriptor

    desc = QuantDescriptor(num_bits=8, axis=(0), amax=[1.0], calib_method="histogram", unsigned=True)
    plain = ["num_bits", "name", "fake_quant", "axis", "amax", "learn_amax", "scale_amax"]
    for name in [*plain, "calib_method", "unsigned"]:
        with pytest.raises(AttributeError):
            setattr(desc, name, getattr(desc, name))


def test_quantized_module():
    sizes = {"in_features": 4, "out_features": 3, "in_channels": 2, "out_channels": 3, "kernel_size": 3}
    names = run(QUANTIZED_MODULE, **sizes)
    for float_name, name, x in (
        ("fc1", "quant_fc1", torch.randn(5, 4)),
        ("conv1", "quant_conv1", torch.randn(2, 2, 6, 6)),
    ):
        module, twin = names[name], names[float_name]
        module.load_state_dict(twin.state_dict())
        assert not torch.equal(module(x), twin(x))
        torch.testing.assert_close(module(x), twin(x), rtol=0.05, atol=0.05)


def test_predefined_descriptors():
    from pytorch_quantization import tensor_quant

    listing = re.sub(r"(TRANSPOSE.*axis=)\(0\)", r"\1(1)", PREDEFINED)
    names = run(listing, QuantDescriptor=tensor_quant.QuantDescriptor)
    printed = {name: value for name, value in names.items() if name.startswith("QUANT_DESC")}
    assert len(printed) == 9
    assert printed == {name: getattr(tensor_quant, name) for name in printed}


@pytest.mark.parametrize("listing", [assemble(MAXPOOL_PIECES), MAXPOOL], ids=["pieces", "complete"])
def test_custom_module_with_inputs_only(listing):
    from pytorch_quantization import nn as quant_nn
    from pytorch_quantization.nn.modules import _utils

    names = run(listing, pooling=pooling, _utils=_utils)
    module, x = names["QuantMaxPool2d"](2, padding=1), torch.randn(1, 3, 8, 8)
    assert torch.equal(module(x), quant_nn.QuantMaxPool2d(2, padding=1)(x))
    module.input_quantizer.disable()
    assert torch.equal(module(x), F.max_pool2d(x, 2, padding=1))
    with pytest.raises(TypeError, match="Unused keys"):
        names["QuantMaxPool2d"](2, bits=4)


@pytest.mark.parametrize("listing", [assemble(LINEAR_PIECES), LINEAR], ids=["pieces", "complete"])
def test_custom_module_with_weights(listing):
    from pytorch_quantization import nn as quant_nn
    from pytorch_quantization import tensor_quant
    from pytorch_quantization.nn.modules import _utils

    names = run(listing, nn=nn, F=F, _utils=_utils)
    weight = tensor_quant.QUANT_DESC_8BIT_LINEAR_WEIGHT_PER_ROW
    module, x = names["QuantLinear"](4, 3, quant_desc_weight=weight), torch.randn(5, 4)
    twin = quant_nn.QuantLinear(4, 3)
    twin.load_state_dict(module.state_dict())
    assert torch.equal(module(x), twin(x))
    module.input_quantizer.disable()
    module.weight_quantizer.disable()
    assert torch.equal(module(x), F.linear(x, module.weight, module.bias))


def test_custom_module_takes_part_in_initialize():
    from pytorch_quantization import quant_modules
    from pytorch_quantization.nn.modules import _utils

    custom = run(MAXPOOL, pooling=pooling, _utils=_utils)["QuantMaxPool2d"]
    original = nn.MaxPool2d
    quant_modules.initialize(custom_quant_modules=[(nn, "MaxPool2d", custom)])
    try:
        assert type(nn.MaxPool2d(2)) is custom
    finally:
        quant_modules.deactivate()
    assert nn.MaxPool2d is original


def test_inputs_quantized_in_the_graph():
    from pytorch_quantization import nn as quant_nn
    from pytorch_quantization.nn.modules.tensor_quantizer import TensorQuantizer

    names = run(DIRECT, torch=torch, F=F, quant_nn=quant_nn, TensorQuantizer=TensorQuantizer)
    x, quant_x = names["test_input"], names["quant_input"]
    assert quant_x.dtype == torch.double
    step = x.abs().max().item() / 127
    assert 0 < (x - quant_x).abs().max().item() <= step / 2 * (1 + 1e-5)
    torch.testing.assert_close(names["out"], F.adaptive_avg_pool2d(x, 3), rtol=0, atol=step)
