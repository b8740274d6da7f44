"""Kernels of the Ops for devices."""
