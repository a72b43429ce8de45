"""How sums of products become native."""
