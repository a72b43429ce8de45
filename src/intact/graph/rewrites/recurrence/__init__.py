"""Loops and Scans over the cell of a recurrent layer, found and written as that layer."""
