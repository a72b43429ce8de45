"""Processes: what a fork must renew, and limited processes that read the files of strangers."""
