"""16 bits and float for the layers that need them: the budget of a model."""
