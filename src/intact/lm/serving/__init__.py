"""A server of one model that speaks OpenAI's protocols and Anthropic's: completions, chats, embeddings.

server = ModelServer(intact.lm.load("folder"), port=8000)
server.run()                                              # until SIGTERM or `stop`
"""

from intact.lm.serving.server import ModelServer
from intact.lm.serving.server_limits import ServerLimits

__all__ = ["ModelServer", "ServerLimits"]
