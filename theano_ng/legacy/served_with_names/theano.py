"""The same as `served` for programs that are run with ``--numpy-names``: lost names are given back, too."""

from theano_ng import legacy
from theano_ng.legacy import removed

removed.give_back()
legacy.install(force=True)
