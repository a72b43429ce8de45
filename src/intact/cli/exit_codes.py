"""Exit codes of the command, beyond 0 and the 1 that verbs use; signals count as in a shell."""

USER_ERROR, FAULT = 2, 70
BROKEN_PIPE, INTERRUPTED, TERMINATED = 128 + 13, 128 + 2, 128 + 15
