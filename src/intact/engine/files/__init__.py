"""Plan files: what is in them, how it is checked, and what is checked when."""
