"""Language models: open, quantize, generate, compare; the same tokens on every machine.

model = intact.lm.load("model.gguf", weights="int4")
print(model.generate("The capital of France is"))
intact.lm.save(model, "folder")                       # opens in milliseconds
"""

from intact.lm.chat.chat_prompt import split_reasoning
from intact.lm.chat.chat_templates import ChatTemplates
from intact.lm.compare_models import (
    LayerLoss,
    ModelComparison,
    compare_models,
    first_flips,
    layer_losses,
    perplexity,
    token_windows,
)
from intact.lm.description.model_description import ModelDescription
from intact.lm.encoders import TextEncoder, is_encoder, load_encoder
from intact.lm.language_model import LanguageModel, weight_bits, weight_bytes
from intact.lm.load_model import describe_model as describe
from intact.lm.load_model import load_model as load
from intact.lm.load_model import stored_code_bits
from intact.lm.sampling import Sampling
from intact.lm.saved_folder import keep_verification
from intact.lm.saved_folder import save_model as save
from intact.lm.sequence_cache import SequenceCache
from intact.lm.token_grammar import TokenGrammar
from intact.lm.tokenizer import Tokenizer
from intact.lm.verification.verify_model import Verification, verification_record
from intact.lm.verification.verify_model import verify_model as verify

__all__ = [
    "ChatTemplates", "LanguageModel", "LayerLoss", "ModelComparison", "ModelDescription", "Sampling",
    "SequenceCache", "TextEncoder", "TokenGrammar", "Tokenizer", "Verification", "compare_models", "describe",
    "first_flips", "is_encoder", "keep_verification", "layer_losses", "load", "load_encoder", "perplexity",
    "save", "split_reasoning", "stored_code_bits", "token_windows", "verification_record", "verify",
    "weight_bits", "weight_bytes",
]  # fmt: skip
