"""The audit of Ops."""
