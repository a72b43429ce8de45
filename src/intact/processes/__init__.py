"""Processes: what a fork must renew, and limited processes that read the files of strangers."""

from intact.processes.forks import Renewable, cached_property, never_free, renew_in_child

__all__ = ["Renewable", "cached_property", "never_free", "renew_in_child"]
