"""Reads calibration data in any form that users have, and turns it into checked runs of a model."""

from intact.ptq.data.batch_splitting import BatchSplitter
from intact.ptq.data.batches import Source, open_data
from intact.ptq.data.image_decoding import decode_image
from intact.ptq.data.model_inputs import Feeds, Input, inputs_of
from intact.ptq.data.npy_files import Npz

__all__ = [
    "BatchSplitter", "Feeds", "Input", "Npz", "Source", "decode_image", "inputs_of", "open_data",
]  # fmt: skip
