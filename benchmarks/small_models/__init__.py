"""Small networks for hard cases of quantization, their weights, and how those were made."""
