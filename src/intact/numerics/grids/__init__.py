"""Scales, grids and granules: from a range to codes and back."""
