"""Signal-to-noise ratios in decibels."""

from __future__ import annotations

from math import inf, log10


def signal_to_noise(signal: float, noise: float) -> float:
    """Return the ratio of two sums of squares in dB: 10 log10(signal / noise).

    Args:
        signal: Sum, or mean, of the squares of the values; 0 or above.
        noise: That of the errors, over as many values.
    Returns:
        inf where there is no noise, -inf where there is noise alone.
    """
    if not noise:
        return inf
    ratio = signal / noise
    return 10 * log10(ratio) if ratio else -inf
