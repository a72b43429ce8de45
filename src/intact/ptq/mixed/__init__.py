"""Mixed precision: gives 16 bits or float to the layers that need it, within a time budget."""

from intact.ptq.budget_search import BudgetProgram, Selection, Upgrade
from intact.ptq.mixed.float_budget import GOOD_DB, reader_is_recurrent
from intact.ptq.mixed.precision_search import (
    RUNS,
    TRIALS,
    Form,
    PrecisionStep,
    UnitGroup,
    UnitTrials,
    affordable_steps,
    fewest_steps,
    forms_of,
    greedy_steps,
    is_clearly_better,
    predict_step_count,
)
from intact.ptq.mixed.predicted_time import PredictedTime

__all__ = [
    "GOOD_DB", "RUNS", "TRIALS", "BudgetProgram", "Form", "PrecisionStep", "PredictedTime", "Selection",
    "UnitGroup", "UnitTrials", "Upgrade", "affordable_steps", "fewest_steps", "forms_of", "greedy_steps",
    "is_clearly_better", "predict_step_count", "reader_is_recurrent",
]  # fmt: skip
