"""What binders of several kinds have in common."""
