"""The command that proves the faults."""

import sys

from theano_ng.tests.authors.planted_faults import main

sys.exit(main(sys.argv[1:]))
