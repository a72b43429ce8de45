"""Lowering rules: for each operator or group of nodes, the steps that compute it."""
