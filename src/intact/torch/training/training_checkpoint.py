"""Write and read the checkpoint file from which an interrupted fine-tuning resumes exactly."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from intact.atomic import replacing
from intact.checksums import DIGEST
from intact.errors import FileFormatError
from intact.reading import reading
from intact.torch.models.fsdp import is_sharded, put_states, states_of
from intact.torch.sealed_tensors import digest_of_state

_KIND, _VERSION = "intact.finetune", 1
_DAMAGE = (
    AssertionError, AttributeError, EOFError, LookupError, OverflowError, RuntimeError, TypeError, ValueError,
    pickle.UnpicklingError,
)  # fmt: skip
"""Errors of torch.load where bits are flipped."""


def write_state(
    path: Path | None,
    model: nn.Module,
    optimizer: Optimizer,
    position: dict[str, Any],
    settings: dict[str, Any],
) -> None:
    """Replace `path`, in one step, by the whole state: weights, optimizer, random numbers, position.

    Args:
        path: The file; None in a process that does not write, and takes part where the model is sharded.
        model, optimizer: What is being trained.
        position: Plain values: epoch, step, history.
        settings: Plain values that a run which goes on must share.
    """
    if path is None and not is_sharded(model):
        return
    weights, moments = states_of(model, optimizer)
    if path is None:
        return
    state = {
        "kind": _KIND,
        "version": _VERSION,
        "model": weights,
        "optimizer": moments,
        "random": torch.get_rng_state(),
        "position": position,
        "settings": settings,
    }
    with replacing(path) as file:
        torch.save(state | {DIGEST: digest_of_state(state)}, file)


def read_state(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Read a file of `write_state`; nothing in it is executed.

    Raises:
        FileAccessError: The file cannot be read.
        FileFormatError: The file is damaged, of another kind or version, or of a run with other settings.
    """
    try:
        with reading(path), path.open("rb") as file:  # by its name torch takes some files for safetensors
            state = torch.load(file, map_location="cpu", weights_only=True)
    except _DAMAGE as error:
        raise _checkpoint_error(path, f"no readable checkpoint ({type(error).__name__})") from None
    fits = isinstance(state, dict) and state.get("kind") == _KIND and state.get("version") == _VERSION
    if not fits:
        raise _checkpoint_error(path, "a file of another kind or version")
    # torch.load checks no checksum of tensors; files of earlier versions have none of ours.
    if DIGEST in state and state.pop(DIGEST) != digest_of_state(state):
        raise _checkpoint_error(path, "content that does not match its checksum")
    stored_settings = state.get("settings", {})
    if differing := sorted(key for key in settings if stored_settings.get(key) != settings[key]):
        shown = ", ".join(f"{key} {stored_settings.get(key)!r} (now {settings[key]!r})" for key in differing)
        raise _checkpoint_error(path, f"a run with {shown}")
    return dict(state)


def restore(state: dict[str, Any], model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Load `state` into `model` and `optimizer`, and return the position."""
    put_states(model, optimizer, state["model"], state["optimizer"])
    return dict(state["position"])


def _checkpoint_error(path: Path, got: str) -> FileFormatError:
    return FileFormatError(
        f"checkpoint '{path.name}'",
        got,
        "the checkpoint of this run of intact.torch.finetune",
        "repeat the call with the settings of that run, pass resume=False, or name another file",
    )
