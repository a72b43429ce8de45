"""The meaning of a language model's files, with the file and the field that each value came from."""
