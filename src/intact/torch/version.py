"""`pytorch_quantization.version`."""

from intact._version import __version__ as _intact_version

__version__ = f"2.2.1+intact.{_intact_version}"
"""The surface that scripts may ask for, then who really answers."""
