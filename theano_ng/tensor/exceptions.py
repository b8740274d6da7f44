"""Exceptions of the tensor package that belong to no other module."""

__all__ = ["ShapeError"]


class ShapeError(Exception):
    """Raised by ``Op.infer_shape`` if the shape cannot be determined."""
