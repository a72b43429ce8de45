"""Run the engine's float steps in modules, so that evaluation has the same bits as the engine of the file.

`exact_functions` opens a mode in which torch functions whose last bits IEEE 754 does not decide (sums,
products, exponentials) compute what an engine of the module computes (docs/numerics.md, N65).
"""

from intact.torch.exact.exact_mode import exact_functions, run_exactly, torch_functions
from intact.torch.exact.torch_steps import record_torch_steps

__all__ = ["exact_functions", "record_torch_steps", "run_exactly", "torch_functions"]
