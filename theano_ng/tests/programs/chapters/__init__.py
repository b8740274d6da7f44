"""The chapters of operations. Importing this package fills `operations.OPERATIONS`."""

from theano_ng.tests.programs.chapters import (  # they register operations
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
