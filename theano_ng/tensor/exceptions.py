"""Exceptions of the tensor package that have no other home."""

__all__ = ["ShapeError"]


class ShapeError(Exception):
    """Raised by ``Op.infer_shape`` when the shape cannot be told."""
