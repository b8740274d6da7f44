"""``python -m theano_ng.audit.rewrites``."""

import sys

from theano_ng.audit.rewrites.command import main

sys.exit(main())
