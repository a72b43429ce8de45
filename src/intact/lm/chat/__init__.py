"""Conversations as prompts: chat templates, messages, and the reasoning inside answers."""
