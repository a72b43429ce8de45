"""A limit of the system, without any stand-in: what is larger than a file may be leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMITED = """
import resource, sys
import numpy as np
from intact.calib import Calibration
from intact.errors import FileAccessError

found = Calibration()
found.collect("x", np.linspace(-1, 1, 9999, dtype=np.float32))
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    found.save(sys.argv[1])
except FileAccessError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
def test_a_file_that_is_too_large_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "model.calib"
    target.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(target)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(f"file '{target}': got 'File too large' when it was written"), done.stderr
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]
