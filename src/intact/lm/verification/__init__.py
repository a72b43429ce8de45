"""Comparison of a language model with the programs of those who made it: transformers and llama.cpp."""
