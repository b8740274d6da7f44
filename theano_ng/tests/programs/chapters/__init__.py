"""The chapters of operations. Importing this package fills `operations.OPERATIONS`."""

from theano_ng.tests.programs.chapters import (  # noqa: F401  (they register operations)
    bodies,
    elementwise,
    indexing,
    networks,
    products,
    reductions,
    shaping,
    sparse,
    streams,
)
