"""The version, where every layer can read it; the build reads it from here."""

__version__ = "0.1.0"
