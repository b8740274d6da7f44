"""Convolution of images with kernels, in two and three dimensions.

The functions in `functions` build graphs from the Ops in `abstract`, which define the result of a convolution, but not
the algorithm. `shapes` computes lengths and padding. The rules in `opt` replace the abstract Ops by the Ops of
`corr`, `corr3d` and `convmm`. `upsampling` interpolates images. `legacy`, `conv3d2d`, `volumes` and `signal.conv` keep
the older interfaces.
"""
