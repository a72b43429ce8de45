"""Other protocols of chats than OpenAI's chat completions: requests read as those, and bodies of answers."""
