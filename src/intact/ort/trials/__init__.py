"""Quantizing behind a program's back: samples of runs, candidates, the gate in front and the guard behind."""
