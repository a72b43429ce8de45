"""The verbs of ``intact``, a module each."""
