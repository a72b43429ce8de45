"""Reads calibration data in any form that users have, and turns it into checked runs of a model."""
