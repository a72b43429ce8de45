"""Print pip constraints: the lowest version of everything that the core, images, reports and tuning need."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for wanted in (*project["dependencies"], *extras["images"], *extras["report"], *extras["tune"]):
    print(wanted.replace(">=", "=="))
