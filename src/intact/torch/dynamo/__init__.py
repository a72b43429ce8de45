"""Provide the backend of ``torch.compile(model, backend="intact")``."""
