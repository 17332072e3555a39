"""Constants of the models, fitted to what was measured: rows in, constants out, with the error on measurements that a fit had not seen.

| file | what it fits |
| --- | --- |
| `least` | anything: unknowns with a prior each, by least squares |
| `time_model` | the constants of times, to kernels that were timed (`gemmgen study learn`, `gemmgen gpu probe`) |
| `register_model` | the constants of registers, to kernels that were compiled (`gemmgen gpu probe`, rows of specs/generations) |
"""
