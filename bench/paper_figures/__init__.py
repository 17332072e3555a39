"""The parts of bench/papers.py.

| file | what it measures and draws |
| --- | --- |
| `errors` | errors of every scheme, the reductions that LE-GEMM and EGEMM-TC report, histograms (LE-GEMM figures 12 and 13), speed against error (18) |
| `curves` | speed and errors over sizes and shapes, beside rivals (LE-GEMM 8 to 11, table 6; EGEMM-TC 7 to 10; MixPert 2, 8, 9, 11, table 1) |
| `roofline` | LE-GEMM figure 14 |
| `counted` | what ncu counts of launches, by contender |
| `batches` | BatchGEMM figures 4 to 11, from what `gemmgen bench` printed |
| `tuner` | MixPert figure 10, from what `gemmgen tune --json` printed |
| `sharing` | MixPert figure 12b: several processes on one GPU |
| `common` | files, tables and pictures |
"""
