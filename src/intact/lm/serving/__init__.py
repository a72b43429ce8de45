"""A server that speaks OpenAI's protocol: completions, chat and embeddings of one model.

server = ModelServer(intact.lm.load("folder"), port=8000)
server.run()                                              # until SIGTERM or `stop`
"""

from intact.lm.serving.server import ModelServer
from intact.lm.serving.server_limits import ServerLimits

__all__ = ["ModelServer", "ServerLimits"]
