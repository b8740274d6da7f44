"""Convolution of images with kernels, in two and three dimensions.

Programs build graphs with `front`, of the Ops in `abstract`, which say what is convolved and not how; `shapes` has the arithmetic of lengths and
padding. The rules in `opt` replace these Ops by correlations (`corr`, `corr3d`). `upsampling` interpolates images. `legacy`, `conv3d2d`,
`volumes` and `signal.conv` keep the older interfaces.
"""
