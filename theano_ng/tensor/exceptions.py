"""Exceptions of the tensor package that belong to no other module."""

__all__ = ["ShapeError"]


class ShapeError(Exception):
    """The exception that ``Op.infer_shape`` raises if the shape cannot be determined."""
