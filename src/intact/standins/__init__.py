"""Scripts and metadata of the packages that INTact stands in for."""
