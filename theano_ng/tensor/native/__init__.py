"""Native code of Ops, one extension module a family; loaded when first needed."""
