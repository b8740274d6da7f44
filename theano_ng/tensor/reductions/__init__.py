"""Reductions: what makes fewer elements of many.

==============  ======================================================================
`axes`          which axes, and keeping them
`careduce`      the Ops of commutative, associative scalar ops: `CAReduce`, `Sum`, `Prod`, `All`, `Any`
`fused`         a reduction that takes in the elementwise operation before it
`sums`          `sum`, `prod`, `all`, `any`
`extremes`      `max`, `min`, `argmax`, `argmin`
`statistics`    `mean`, `var`, `std`, `ptp`, `cov`
`cumulative`    `cumsum`, `cumprod`, `diff`
==============  ======================================================================
"""
