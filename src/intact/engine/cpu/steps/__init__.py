"""How each kind of step becomes native: importing this folder registers all.

A file for each kind, in the room of its home in `intact.engine.steps`; what several share stands in `base`.
"""

from intact.engine.cpu.steps.calls import shape_arithmetic as shape_arithmetic
from intact.engine.cpu.steps.elements import add as add
from intact.engine.cpu.steps.elements import binary as binary
from intact.engine.cpu.steps.elements import clip as clip
from intact.engine.cpu.steps.elements import dequantize as dequantize
from intact.engine.cpu.steps.elements import elementwise as elementwise
from intact.engine.cpu.steps.elements import fake_quantize as fake_quantize
from intact.engine.cpu.steps.elements import function as function
from intact.engine.cpu.steps.elements import quantize as quantize
from intact.engine.cpu.steps.elements import reinterpret as reinterpret
from intact.engine.cpu.steps.elements import rescale as rescale
from intact.engine.cpu.steps.elements import split_quantize as split_quantize
from intact.engine.cpu.steps.elements import table as table
from intact.engine.cpu.steps.moves import concat as concat
from intact.engine.cpu.steps.moves import expand as expand
from intact.engine.cpu.steps.moves import gather as gather
from intact.engine.cpu.steps.moves import gather_elements as gather_elements
from intact.engine.cpu.steps.moves import gather_rows as gather_rows
from intact.engine.cpu.steps.moves import grid_sample as grid_sample
from intact.engine.cpu.steps.moves import interpolate as interpolate
from intact.engine.cpu.steps.moves import pad as pad
from intact.engine.cpu.steps.moves import reshape as reshape
from intact.engine.cpu.steps.moves import resize as resize
from intact.engine.cpu.steps.moves import scatter_elements as scatter_elements
from intact.engine.cpu.steps.moves import scatter_rows as scatter_rows
from intact.engine.cpu.steps.moves import slice as slice
from intact.engine.cpu.steps.moves import stack_planes as stack_planes
from intact.engine.cpu.steps.moves import transpose as transpose
from intact.engine.cpu.steps.products import attention as attention
from intact.engine.cpu.steps.products import chosen_linear as chosen_linear
from intact.engine.cpu.steps.products import conv as conv
from intact.engine.cpu.steps.products import conv_transpose as conv_transpose
from intact.engine.cpu.steps.products import float_conv as float_conv
from intact.engine.cpu.steps.products import float_conv_transpose as float_conv_transpose
from intact.engine.cpu.steps.products import float_linear as float_linear
from intact.engine.cpu.steps.products import float_matmul as float_matmul
from intact.engine.cpu.steps.products import linear as linear
from intact.engine.cpu.steps.products import matmul as matmul
from intact.engine.cpu.steps.products import recurrent as recurrent
from intact.engine.cpu.steps.reductions import arg_max as arg_max
from intact.engine.cpu.steps.reductions import cum_sum as cum_sum
from intact.engine.cpu.steps.reductions import fold as fold
from intact.engine.cpu.steps.reductions import layer_norm as layer_norm
from intact.engine.cpu.steps.reductions import norm_and_codes as norm_and_codes
from intact.engine.cpu.steps.reductions import pool as pool
from intact.engine.cpu.steps.reductions import reduce as reduce
from intact.engine.cpu.steps.reductions import softmax as softmax
from intact.engine.cpu.steps.reductions import top_k as top_k
