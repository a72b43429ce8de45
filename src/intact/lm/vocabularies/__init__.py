"""Vocabularies of language models: how a text becomes the tokens that a model was trained on."""
