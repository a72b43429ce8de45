"""Steps that are sums of products."""
