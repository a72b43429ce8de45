"""INTact: INT activations and weights, accuracy intact; what you simulate is what you run.

The front door. It loads NumPy alone; the frameworks load with the first call that needs them.

>>> import intact
>>> intact.QuantSpec("int8", axis=0)
QuantSpec(format=Format(name='int8', bits=8, signed=True, qmin=-128, qmax=127, is_float=False), axis=0, \
block_size=None, symmetric=True, narrow=False)
>>> print(intact.QuantSpec("uint8", symmetric=False))
uint8 per-tensor asymmetric
"""

from __future__ import annotations

import sys
from typing import Any

from intact._version import __version__
from intact.errors import IntactError, UnsupportedError
from intact.spec import Format, QuantSpec

__all__ = ["Format", "IntactError", "QuantSpec", "__version__", "calibrate"]


def calibrate(model: Any, data: Any, **options: Any) -> Any:
    """Collect statistics of `model` over `data` and set the scales of its quantizers.

    Args:
        model: A `torch.nn.Module` that holds quantizers; `intact.torch.calibrate` takes it from there.
        data: An iterable of batches.
        **options: Passed on: see `intact.torch.calibrate`.

    Returns:
        What that function returns: an `intact.calib.Calibration`, from which another method or bit
        width can be chosen without new data.

    Raises:
        UnsupportedError: `model` is of no kind that this version calibrates.
    """
    # A module object exists only where torch was imported, so asking sys.modules loads nothing.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from intact.torch import calibrate as calibrate_module

        return calibrate_module(model, data, **options)
    raise UnsupportedError(
        "calibrate: model",
        f"a {type(model).__module__}.{type(model).__qualname__}",
        "a torch.nn.Module that holds quantizers",
        "build the model under intact.torch.quant_modules.initialize(), or pass it through "
        "intact.torch.replace_modules first",
    )
