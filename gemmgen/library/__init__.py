"""Libraries of kernels that choose among themselves, for other programs."""
