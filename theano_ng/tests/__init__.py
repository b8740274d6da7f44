"""The test runner, and test helpers that users' suites import."""
