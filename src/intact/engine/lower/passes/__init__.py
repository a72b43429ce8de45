"""Passes over the graph before its steps are chosen, and over the finished steps."""
