"""Device back ends in C: the function table (`device.h`), its CUDA, OpenCL and stub versions, the memory pool, and the
library paths.
"""
