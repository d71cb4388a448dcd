"""The reference backend: plans interpreted with the numpy references of kernels/ops."""
