"""How steps that move elements become native."""
