# Written by theano_ng/misc/write_stubs.py, which lists what this module has when it runs.

from theano_ng.compile.clone import clone as clone
from theano_ng.scan import (
    builder as builder,
    checkpoints as checkpoints,
    gradient as gradient,
    groups as groups,
    loop as loop,
    op as op,
    opt as opt,
    utils as utils,
    views as views,
)
from theano_ng.scan.builder import scan as scan
from theano_ng.scan.checkpoints import scan_checkpoints as scan_checkpoints
from theano_ng.scan.utils import until as until
from theano_ng.scan.views import foldl as foldl, foldr as foldr, map as map, reduce as reduce
