"""Rewrites of a graph that leave what it computes: compound operators written out, loops as layers."""
