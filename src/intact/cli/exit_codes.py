"""Exit statuses, but for 0, and 1 that belongs to verbs; signals as a shell tells them."""

USER_ERROR, FAULT = 2, 70
BROKEN_PIPE, INTERRUPTED, TERMINATED = 128 + 13, 128 + 2, 128 + 15
