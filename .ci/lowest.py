"""Print pip constraints: the lowest versions that the core and the extras without PyTorch allow."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
lists = [project["dependencies"], *(extras[name] for name in ("images", "report", "tune", "lm"))]
for wanted in dict.fromkeys(wanted for names in lists for wanted in names):
    print(wanted.replace(">=", "=="))
