"""The main job on real images: train, calibrate, compare, fine-tune, export, verify."""

from intact.torch.quickstart.run import Outcome, QuickstartSettings, Row, quickstart

__all__ = ["Outcome", "Row", "QuickstartSettings", "quickstart"]
