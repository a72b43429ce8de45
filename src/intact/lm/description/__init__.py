"""What a language model's files say of it, with the file and the field that each value came from."""
