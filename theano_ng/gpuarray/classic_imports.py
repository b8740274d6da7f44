"""Names that the classic modules for devices imported for their own use. See `lazy.CLASSIC_IMPORTS`."""

from theano_ng import lazy

CLASSIC_IMPORTS = {
    **lazy.CLASSIC_IMPORTS,
    "theano_ng.compile.mode": "optdb",
    "theano_ng.gpuarray.transfers": "gpu_contiguous host_from_gpu",
    "theano_ng.gpuarray.type": "gpu_context_type",
    "theano_ng.scalar": "bool_t=bool complex_types get_scalar_type int32_t=int32 int_t size_t=uint32",
    "theano_ng.scalar.sharedvar": "integer_types",
}
