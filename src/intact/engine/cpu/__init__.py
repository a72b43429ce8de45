"""The CPU: plans bound to native kernels, for one set of input shapes at a time."""

from intact.engine.cpu.backend import CpuBackend as CpuBackend
