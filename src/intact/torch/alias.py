"""Register the modules of `intact.torch` under the name `pytorch_quantization`, for scripts written
for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from intact.errors import IntactError
from intact.standins import StandInDistribution, register_distribution

OLD_NAME = "pytorch_quantization"
STANDINS = Path(__file__).with_name("standins")
"""A folder with a module of the old name, for processes in which nobody calls `alias`."""
_SUBMODULES = (
    "calib",
    "calib.calibrator",
    "calib.histogram",
    "calib.max",
    "cuda_ext",
    "nn",
    "nn.functional",
    "nn.modules",
    "nn.modules._utils",
    "nn.modules.clip",
    "nn.modules.quant_conv",
    "nn.modules.quant_instancenorm",
    "nn.modules.quant_linear",
    "nn.modules.quant_pooling",
    "nn.modules.quant_rnn",
    "nn.modules.tensor_quantizer",
    "optim",
    "optim.helper",
    "quant_modules",
    "tensor_quant",
    "utils",
    "utils.quant_logging",
    "utils.reduce_amax",
    "version",
)


def alias(force: bool = False) -> None:
    """Make ``import pytorch_quantization`` mean `intact.torch`: the same module objects under both names.

    Call it before the first import of the old name.

    Args:
        force: Also where the original library is installed, or already imported.
    Raises:
        IntactError: The original is there and `force` is False.
    """
    face = sys.modules["intact.torch"]
    present = sys.modules.get(OLD_NAME)
    if present is face:
        return
    if not force and (present is not None or _is_installed()):
        raise IntactError(
            "intact.torch.alias",
            f"the original {OLD_NAME}, {'already imported' if present is not None else 'installed'}",
            "a Python environment without it",
            f"uninstall {OLD_NAME}, or call alias(force=True) before anything imports it",
        )
    for name in [n for n in sys.modules if n.split(".")[0] == OLD_NAME]:
        del sys.modules[name]
    sys.modules[OLD_NAME] = face
    register_distribution(
        StandInDistribution("pytorch-quantization", OLD_NAME, lambda: str(face.__version__), is_aliased)
    )
    for name in _SUBMODULES:
        sys.modules[f"{OLD_NAME}.{name}"] = importlib.import_module(f"intact.torch.{name}")


def is_aliased() -> bool:
    """Return whether ``import pytorch_quantization`` gives `intact.torch`, whose errors scripts then expect,
    too.
    """
    return sys.modules.get(OLD_NAME) is sys.modules.get("intact.torch")


def _is_installed() -> bool:
    spec = importlib.util.find_spec(OLD_NAME)
    if spec is None or spec.origin is None:  # a folder of that name alone has no origin
        return False
    return Path(spec.origin).parent != STANDINS
