"""Lowering rules for operators that only move elements."""
