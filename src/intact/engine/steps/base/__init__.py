"""Base of every kind of step, and the questions that a step asks about a plan."""
