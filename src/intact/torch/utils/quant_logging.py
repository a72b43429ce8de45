"""Logging of the PyTorch face: one logger, no handler of our own."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("intact.torch")


def reset_logger_handler() -> None:
    """Remove the handlers that someone put on our logger, so that records go to the root logger alone."""
    for handler in list(LOGGER.handlers):
        LOGGER.removeHandler(handler)
    LOGGER.propagate = True
