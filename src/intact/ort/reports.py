"""Records of the models of a process, written and shown when its program ends."""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from intact.ort.background import background, faults
from intact.ort.policies import current_policy
from intact.ort.session_methods import registry
from intact.terminal import printable

if TYPE_CHECKING:
    from intact.ort.records import ModelRecord


def process_records() -> list[ModelRecord]:
    """Return the records of the models that this process has run, and of those that it refused."""
    from intact.ort.records import ModelRecord

    refused = [ModelRecord(file=name, state="float", why=why) for name, why in registry.refused.items()]
    return [model.current_record() for model in registry.models()] + refused


def stored_records() -> list[ModelRecord]:
    """Return the records in the cache folder, the newest first."""
    from intact.ort.records import ResultCache

    rules = current_policy()
    return ResultCache(rules.folder, rules.cache_bytes).records()


def _end_program() -> None:
    """Write records to the cache and, where the program asks for it, lines to standard error."""
    with suppress(Exception):
        if background.is_child:
            return
        background.stop()
        for model in registry.models():
            with suppress(Exception):
                model.save_record()
        if current_policy().verbose:
            from intact.ort.records import describe

            for record in process_records():
                print(f"intact.ort: {describe(record)}", file=sys.stderr)
            for fault in faults:
                print(f"intact.ort: {printable(fault)}", file=sys.stderr)


atexit.register(_end_program)
