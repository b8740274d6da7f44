"""Experiments with sparse matrices: convolution as a product (`sp`), random matrices (`sp2`)."""
