"""The few kernels that a program needs: which of a store's kernels serve a distribution of sizes, and by what rules a product gets one of them."""
