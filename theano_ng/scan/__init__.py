"""Loops: `scan` and what is built on it.

=============  ======================================================================
`front`        `scan`: from a Python function of a step to a node of the graph
`views`        `map`, `reduce`, `foldl`, `foldr`
`checkpoints`  `scan_checkpoints`: loops whose gradient needs little memory
`groups`       how the inputs and outputs of a loop are grouped
`op`           `Scan`, the Op
`gradient`     its derivatives and shapes
`backward`     the loop that computes its gradient
`rows`         where rows of outer variables are
`sums`         sums over the steps, as far as possible behind a loop
`loop`         how it runs, in Python; `_loop` does the same in C
`opt`          rules that put loops into a better form
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
        "theano_ng.scan.front": "scan",
        "theano_ng.scan.utils": "until",
        "theano_ng.scan.views": "foldl foldr map reduce",
        # The classic modules.
        "theano_ng.scan": "scan_op=op scan_opt=opt scan_perform_ext=loop scan_utils=utils scan_views=views",
    },
    modules="checkpoints front gradient groups loop op opt utils views",
)
