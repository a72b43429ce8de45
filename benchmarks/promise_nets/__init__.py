"""The networks of `promise.py` by family. A family is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from promise_nets.network import Network

FAMILIES = ("transformers", "newer", "timm", "torchvision", "zoo", "trained")


def networks(family: str) -> list[Network]:
    """The networks of one family.

    Raises:
        ImportError: A package that it needs is missing.
    """
    names = {"transformers": "language", "newer": "language", "torchvision": "image", "timm": "image",
             "zoo": "trained", "trained": "trained"}  # fmt: skip
    result: list[Network] = import_module(f"promise_nets.{names[family]}_networks").NETWORKS
    return [item for item in result if item.family == family]
