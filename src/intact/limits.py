"""Limits on the memory and time that files and arguments may request, in one table.

Every loader asks here before it takes memory or time on a file's word. A limit lies far above what honest
files need; who needs more says so for one process in the environment, as the error's last sentence does.
`docs/limits.md` repeats the table, and a test holds the two together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from intact.errors import FileFormatError, IntactError, QuantValueError
from intact.processes import cached_property


@dataclass(frozen=True)
class Limit:
    """Holds the largest allowed value of one quantity.

    Attributes:
        name: In lower case; the variable that overrides it is `INTACT_LIMIT_` and this name in upper case.
        default: The most, where the environment says nothing.
        unit: What is counted.
        why: Of what, and what it keeps from happening.
    """

    name: str
    default: int
    unit: str
    why: str

    @cached_property
    def variable(self) -> str:
        """The environment variable that overrides the limit."""
        return f"INTACT_LIMIT_{self.name.upper()}"

    @property
    def most(self) -> int:
        """The limit in force.

        Raises:
            QuantValueError: The environment names no whole number of 1 or more.
        """
        text = os.environ.get(self.variable)
        if text is None or not (text := text.strip()):
            return self.default
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) > 0):
            raise QuantValueError(
                self.variable, repr(text[:40]), "a whole number of 1 or more", "mend it or unset it"
            )
        return int(text)

    def check(self, amount: int, where: str, error: type[IntactError] = FileFormatError) -> None:
        """Raise an error if `amount` exceeds the limit.

        Args:
            amount: How many.
            where: The file, tensor, node or argument that asks.
            error: The kind of error.

        Raises:
            IntactError: `amount` is above the limit; of the kind given.
        """
        if amount > self.most:
            raise self.excess(amount, where, error)

    def excess(self, amount: int, where: str, error: type[IntactError] = FileFormatError) -> IntactError:
        """Return the error for an amount above the limit. Arguments as for `check`."""
        return error(
            where,
            f"{amount:,} {self.unit}" if amount < 10**30 else f"more than 10^30 {self.unit}",
            f"at most {self.most:,}",
            f"if this is meant, set {self.variable}={amount} in the environment",
        )


LIMITS: dict[str, Limit] = {}


def _limit(name: str, default: int, unit: str, why: str) -> Limit:
    LIMITS[name] = Limit(name, default, unit, why)
    return LIMITS[name]


THREADS = _limit("threads", 1024, "threads", "of one engine or kernel call: each is a thread of the system")
GRAPH_NODES = _limit(
    "graph_nodes", 250_000, "nodes", "of a model, those of its functions counted once for each call"
)
GRAPH_DEPTH = _limit("graph_depth", 32, "graphs", "within one another: branches and bodies of loops")
GRAPH_VALUES = _limit(
    "graph_values", 1_000_000, "values", "of one graph: inputs, constants, results of nodes"
)
GRAPH_PORTS = _limit("graph_ports", 10_000, "inputs and outputs", "of one graph")
NODE_PORTS = _limit("node_ports", 20_000, "inputs and outputs", "of one node")
FALLBACK_PARTS = _limit("fallback_parts", 1000, "parts", "of one model that ONNX Runtime runs, apart")
TENSOR_ELEMENTS = _limit("tensor_elements", 2**33, "elements", "of one tensor, where its sizes are known")
RESIZED = _limit("resized", 2**20, "pixels", "along one axis that a Resize makes")
FOLDED = _limit(
    "folded", 2**26, "elements", "of a constant that an operator makes of others, when a model is read"
)
ENGINE_BYTES = _limit(
    "engine_bytes",
    2**33,
    "bytes",
    "of the tensors of an engine for one set of input shapes, outputs included",
)
KEPT_BYTES = _limit(
    "kept_bytes", 2**28, "bytes",
    "of what an engine keeps ready for the sets of input shapes that came last; older ones are made again",
)  # fmt: skip
IMAGE_PIXELS = _limit(
    "image_pixels", 2**27, "pixels", "of one image, as its file declares them, and as asked for"
)
NPZ_BYTES = _limit("npz_bytes", 2**31, "bytes", "of all arrays that are unpacked from one `.npz` file")
BATCH_BYTES = _limit("batch_bytes", 2**32, "bytes", "of what one input of a model is fed at a time")
YAML_BYTES = _limit("yaml_bytes", 2**20, "bytes", "of one YAML text")
YAML_NODES = _limit("yaml_nodes", 50_000, "nodes", "of one YAML text, with what its aliases stand for")
YAML_DEPTH = _limit("yaml_depth", 32, "levels", "of YAML inside YAML")
YAML_CHARACTERS = _limit("yaml_characters", 4096, "characters", "of one name or value in YAML")
METADATA_ENTRIES = _limit(
    "metadata_entries",
    2**22,
    "entries",
    "of one list in the header of a GGUF file: keys, tensors, strings of an array",
)
RECORD_BYTES = _limit("record_bytes", 2**26, "bytes", "of the record of a tuning run, or of a timing cache")
