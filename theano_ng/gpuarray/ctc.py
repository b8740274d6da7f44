"""A stub that reports that warp-ctc cannot be used on a GPU, so that programs compute without warp-ctc. Only the
names in `__all__` can be imported from this module.
"""

from theano_ng.moved import only_probes, unavailable

__all__ = ["ctc_available", "ctc_present"]

__path__, __getattr__ = only_probes(__name__)

ctc_present = unavailable("ctc_present", __name__)
ctc_available = unavailable("ctc_available", __name__)
