"""Calibration data as a user has it, turned into checked runs of a model."""
