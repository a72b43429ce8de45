"""Model files, maybe from strangers: read, checked, taken apart and written."""
