"""Print pip constraints: the lowest version of everything that the core and the extras without PyTorch need."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
needed = dict.fromkeys(
    (*project["dependencies"], *(wanted for name in ("images", "report", "tune", "lm") for wanted in extras[name]))
)
for wanted in needed:
    print(wanted.replace(">=", "=="))
