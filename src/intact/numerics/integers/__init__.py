"""Integer layers: exact sums, and what their codes become."""
