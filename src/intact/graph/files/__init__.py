"""Reading, checking, splitting and writing of model files, which may come from strangers."""
