"""The book of operators: one record for each that INTact knows something about.

``ops.Conv.of(node).strides`` reads a node; `record_of` finds the record of any node, `moves` asks whether
codes pass through it. A record stands in the file of its kind: adding one there is all that it takes.
"""
# ruff: noqa: F403

from intact.graph.ops.arithmetic import *
from intact.graph.ops.attributes import copy_attributes as copy_attributes
from intact.graph.ops.attributes import plain as plain
from intact.graph.ops.attributes import subgraphs as subgraphs
from intact.graph.ops.compounds import *
from intact.graph.ops.function_record import *
from intact.graph.ops.functions import *
from intact.graph.ops.logic import *
from intact.graph.ops.lookup import *
from intact.graph.ops.moves import *
from intact.graph.ops.norms import *
from intact.graph.ops.qoperators import *
from intact.graph.ops.record import Kind as Kind
from intact.graph.ops.record import Look as Look
from intact.graph.ops.record import Operator as Operator
from intact.graph.ops.recurrent import *
from intact.graph.ops.recurrent import Recurrent as Recurrent
from intact.graph.ops.reductions import *
from intact.graph.ops.structure import *
from intact.graph.ops.weighted import *
from intact.graph.ops.window import Windowed as Windowed
