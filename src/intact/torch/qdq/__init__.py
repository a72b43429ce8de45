"""A module with quantizers as a Q/DQ model: torch's exporter, translations, checks."""
