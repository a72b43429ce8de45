"""How each kind of step becomes native: importing this folder registers all."""

from intact.engine.cpu.steps import along_axis as along_axis
from intact.engine.cpu.steps import chosen as chosen
from intact.engine.cpu.steps import codes as codes
from intact.engine.cpu.steps import conv as conv
from intact.engine.cpu.steps import conv_transpose as conv_transpose
from intact.engine.cpu.steps import float_products as float_products
from intact.engine.cpu.steps import functions as functions
from intact.engine.cpu.steps import linear as linear
from intact.engine.cpu.steps import matmul as matmul
from intact.engine.cpu.steps import moves as moves
from intact.engine.cpu.steps import norms as norms
from intact.engine.cpu.steps import picks as picks
from intact.engine.cpu.steps import pool as pool
from intact.engine.cpu.steps import recurrent as recurrent
