"""``torch.compile(model, backend="intact")``."""
