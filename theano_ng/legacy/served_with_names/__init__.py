"""The same as `served` for programs that are run with ``--numpy-names``."""
