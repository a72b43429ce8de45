"""Lets INTact stand in for packages that scripts import under other names."""
