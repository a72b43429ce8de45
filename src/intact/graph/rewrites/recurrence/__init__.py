"""Rewrites of Loop and Scan over a recurrent cell as LSTM, GRU or RNN."""
