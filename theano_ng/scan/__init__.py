"""Loops: `scan`, and functions built on it.

=============  ======================================================================
`builder`      `scan`: makes a loop node from a Python function that defines a step
`views`        `map`, `reduce`, `foldl`, `foldr`
`checkpoints`  `scan_checkpoints`: loops whose gradient needs little memory
`groups`       the groups of a loop's inputs and outputs
`op`           `Scan`, the Op
`gradient`     derivatives and shapes of the Op
`backward`     the loop that computes the gradient of a loop
`outer_rows`   the rows of outer variables that the steps use
`sums`         sums over the steps, which are computed after the loop as far as possible
`loop`         the execution of a loop in Python; `_loop` executes loops in C
`opt`          rules that improve loops
`utils`        `until`, `clone` and other helpers
=============  ======================================================================

The classic name of the package is `theano.scan_module`.
"""

from theano_ng.lazy import lazy_names
from theano_ng.moved import keep_functions

keep_functions(__name__, "scan scan_checkpoints")
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "theano_ng.compile.clone": "clone",
        "theano_ng.scan.checkpoints": "scan_checkpoints",
        "theano_ng.scan.builder": "scan",
        "theano_ng.scan.utils": "until",
        "theano_ng.scan.views": "foldl foldr map reduce",
        # Classic modules.
        "theano_ng.scan": "scan_op=op scan_opt=opt scan_perform_ext=loop scan_utils=utils scan_views=views",
    },
    modules="builder checkpoints gradient groups loop op opt utils views",
)
