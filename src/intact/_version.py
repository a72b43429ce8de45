"""The version of the package; every layer and the build read it from here."""

__version__ = "0.3.0.dev0"
