"""Print pip constraints: the lowest version of everything that extras without PyTorch need."""

import tomllib
from pathlib import Path

EXTRAS = ("images", "report", "tune", "lm", "grammar", "serve")
project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
needed = dict.fromkeys((*project["dependencies"], *(wanted for name in EXTRAS for wanted in extras[name])))
for wanted in needed:
    print(wanted.replace(">=", "=="))
