"""Rules for operators that only move elements."""
