"""Families of decoders: a record of differences for each."""

from collections.abc import Mapping

from intact.lm.description.families.decoder_family import DecoderFamily
from intact.lm.description.families.dense_families import DENSE_FAMILIES
from intact.lm.description.families.expert_families import EXPERT_FAMILIES
from intact.lm.description.families.hybrid_families import HYBRID_FAMILIES

FAMILIES: Mapping[str, DecoderFamily] = {
    record.name: record for record in (*DENSE_FAMILIES, *EXPERT_FAMILIES, *HYBRID_FAMILIES)
}
"""By `model_type`."""
