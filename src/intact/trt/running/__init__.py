"""Engines, their contexts and inspectors, and the runtime that reads them."""
