"""The test runner, and test helpers that users' programs may import, too."""
