"""Devices in C: the table of a back end (`device.h`), CUDA, OpenCL and a stub behind it, memory, and where their libraries are."""
