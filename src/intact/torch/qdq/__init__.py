"""Export a module with quantizers as a Q/DQ model: run torch's exporter, translate operators, verify the
file.
"""
