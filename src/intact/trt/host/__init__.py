"""Host-memory stand-ins for the CUDA calls that TensorRT's scripts make: ``cuda``, ``cudart``, ``pycuda``.

What is allocated is host memory, copies are copies, streams and events are numbers and times; launching a
kernel is not there.
"""
