"""Functions of floats as several steps, each named by its operator."""
