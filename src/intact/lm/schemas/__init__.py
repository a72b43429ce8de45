"""JSON schemas as grammars enforce them: what a schema says is used, harmless, or refused by name."""

from intact.lm.schemas.normalize import NormalizedSchema, SchemaPool, normalize_schema

__all__ = ["NormalizedSchema", "SchemaPool", "normalize_schema"]
