"""Mixed precision: gives 16 bits or float to the layers that need it, within a time budget."""

from intact.ptq.budget_search import BudgetProgram, Selection, Upgrade
from intact.ptq.mixed.float_budget import GOOD_DB, reader_is_recurrent
from intact.ptq.mixed.precision_search import (
    RUNS,
    Form,
    UnitTrials,
    affordable_steps,
    forms_of,
    is_clearly_better,
)
from intact.ptq.mixed.predicted_time import PredictedTime

__all__ = [
    "GOOD_DB", "RUNS", "BudgetProgram", "Form", "PredictedTime", "Selection", "UnitTrials", "Upgrade",
    "affordable_steps", "forms_of", "is_clearly_better", "reader_is_recurrent",
]  # fmt: skip
