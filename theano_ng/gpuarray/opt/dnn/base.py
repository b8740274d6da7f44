"""The registration of rules that use cuDNN.

Rules have the tag ``cudnn``. A rule whose Op of cuDNN is faster than the package's own kernels also has the tag
``fast_run``, by `register_opt` and the other decorators of `opt.databases`; it returns False unless `dnn_available`. A rule
whose Op is not faster than the own kernels, or less exact, is registered by `register_on_request`. It applies only if a
mode includes the tag ``cudnn``; then cuDNN must be available (`NoCuDNNRaise`).
"""

from theano_ng.gof import optdb
from theano_ng.gof.rewriting import Optimizer, local_optimizer
from theano_ng.gpuarray.contexts import list_contexts
from theano_ng.gpuarray.dnn.base import dnn_available
from theano_ng.gpuarray.opt.databases import gpu_optimizer, gpu_seqopt, op_lifter
from theano_ng.gpuarray.type import GpuArrayType


class NoCuDNNRaise(Optimizer):
    """Raise AssertionError if a mode includes the tag ``cudnn``, and a device of the graph cannot use cuDNN.

    If the graph contains no variable on a device, all contexts must be able to use cuDNN.
    """

    def apply(self, fgraph):
        used = {v.type.context_name for v in fgraph.variables if isinstance(v.type, GpuArrayType)}
        for name in used or list_contexts():
            if not optdb.consult(dnn_available, name):
                raise AssertionError(
                    "cuDNN optimization was enabled, but cuDNN cannot be used on the context %s: %s"
                    % (name, dnn_available.msg)
                )


gpu_seqopt.register("NoCuDNNRaise", NoCuDNNRaise(), 0, "cudnn")


def register_on_request(*tags):
    """Return a decorator that registers a rule for single nodes with the tags ``cudnn`` and `tags`, but without
    ``fast_run``.
    """

    def decorator(rule):
        gpu_optimizer.register(rule.__name__, rule, "cudnn", *tags)
        return rule

    return decorator


def lifts_on_request(*tracks, group, tags=()):
    """Return a decorator as `databases.lifts` does, for a rule with the tags ``cudnn`` and `tags`, but without
    ``fast_run``. The rule comes first in its group.

    Parameters
    ----------
    *tracks : Op classes or instances
    group : pair of LocalGroupDB
    tags : sequence of str
    """

    def decorator(f):
        rule = op_lifter(list(tracks))(f)
        for database, one in zip(group, (rule, local_optimizer(list(tracks))(f))):
            database.register(f.__name__, one, "cudnn", *tags, position=0)
        return rule

    return decorator


def uses_cudnn(v):
    """Return True if cuDNN can be used on the device of a variable."""
    return optdb.consult(dnn_available, v.type.context_name)
