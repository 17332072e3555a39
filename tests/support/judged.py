"""How far each baseline of the bench may be off. `tests/device` holds them to it; that none is left out needs no GPU."""

WORST = {  # relative Frobenius error at 256^3 and k = 257
    "cublas-sgemm": 1e-6, "cublas-tf32": 2e-3, "cublas-f16": 1e-3, "cublas-fast-f16": 2e-3, "cublas-hgemm": 1e-2,
    "cublas-dgemm": 1e-14, "triton-tf32x3": 3e-6, "triton-bf16x6": 3e-6, "triton-bf16x3": 3e-5, "triton-ieee": 1e-6,
}
EXACT = ("cublas-int8", "cublas-int8-nn")  # of whole numbers: known to the last bit
