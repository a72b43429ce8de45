"""Steps that read along axes or over windows."""
