"""The test runner, and helpers for tests that programs of users may import, too."""
