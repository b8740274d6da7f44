"""Classic path of the compiled virtual machine."""
from theano_ng.gof._cvm import CLazyLinker  # noqa: F401
