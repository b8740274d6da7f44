"""Reductions and cumulative operations of tensors.

==============  ======================================================================
`axes`          normalization of axes, and restoring reduced dimensions
`careduce`      the Ops of commutative, associative scalar ops: `CAReduce`, `Sum`, `Prod`, `All`, `Any`
`fused`         an elementwise operation and its reduction in one loop
`row_program`   an Op for reductions of rows, combined with elementwise operations
`sums`          `sum`, `prod`, `all`, `any`
`extremes`      `max`, `min`, `argmax`, `argmin`
`statistics`    `mean`, `var`, `std`, `ptp`, `cov`
`cumulative`    `cumsum`, `cumprod`, `diff`
==============  ======================================================================
"""
