"""The verbs of ``intact``, one module each."""
