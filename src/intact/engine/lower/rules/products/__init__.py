"""Rules for sums of products: convolutions, matrices, and networks with a state."""
