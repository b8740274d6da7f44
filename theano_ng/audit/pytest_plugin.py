"""The plugin of pytest: the fixture `audit`, for tests of one line."""

import pytest


@pytest.fixture
def audit():
    """Audit an Op: ``def test_my_op(audit): audit(MyOp(), numpy.ones((2, 3)))``.

    The function takes the arguments of `theano_ng.audit.assert_audit`.
    """
    from theano_ng.audit import assert_audit  # a slow import, which other tests do not need

    return assert_audit
