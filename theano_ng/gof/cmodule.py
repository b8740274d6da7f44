from theano_ng.gof.compilers import CompileError, MissingGXX, compiler_available
from theano_ng.gof.kernelcache import get_kernel_cache, load_kernels
