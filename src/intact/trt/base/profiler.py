"""IProfiler: gets the time of every layer."""

from __future__ import annotations

from intact.terminal import printable


class IProfiler:
    """Profiler interface: a subclass defines ``report_layer_time(layer_name, ms)``."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Take the time of one layer of one run."""
        raise NotImplementedError(f"{type(self).__name__} must define report_layer_time(layer_name, ms)")


class Profiler(IProfiler):
    """Prints one line for each layer."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Print the time."""
        print(f"{printable(layer_name)}: {ms:.4f}ms")
