"""Versions of the ONNX domain: checks of nodes against their schema, upgrades and downgrades of graphs."""
