"""Timing on a CUDA GPU: generated kernels and their rivals, interleaved, from CUDA graphs.

The chip is limited by power and its clock moves with what ran before, so only
figures taken side by side compare: in every round each contender runs for a
slice of time, in an order drawn anew for each round. Inputs rotate so that the
cache does not serve the same matrices, and are random, since zeros draw less
power and run faster.
"""

from gemmgen.timing.blas import CUBLAS, GemmEx, cublas
from gemmgen.timing.contender import Contender, generated
from gemmgen.timing.environment import conditions, device_name, release_memory, sensors_here, versions
from gemmgen.timing.inputs import Inputs, set_count
from gemmgen.timing.racing import estimate, race, refusals
from gemmgen.timing.reference import REFERENCE_ROWS, Accuracy, Reference, error_of, sampled_rows

__all__ = [
    "CUBLAS", "REFERENCE_ROWS", "Accuracy", "Contender", "GemmEx", "Inputs", "Reference", "conditions", "cublas", "device_name",
    "error_of", "estimate", "generated", "race", "refusals", "release_memory", "sampled_rows", "sensors_here", "set_count", "versions",
]
