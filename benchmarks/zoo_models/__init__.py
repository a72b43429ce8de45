"""Trained networks that install from PyPI, each with its own preprocessing, real inputs and a metric."""

from __future__ import annotations

from zoo_models import audio, ocr, text, vision
from zoo_models.network import Network

NETWORKS: dict[str, Network] = {
    network.name: network
    for network in (*vision.NETWORKS, *ocr.NETWORKS, *audio.NETWORKS, *text.NETWORKS)
}  # fmt: skip
