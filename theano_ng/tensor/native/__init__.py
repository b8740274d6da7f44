"""Native code of Ops: one extension module for each family of Ops, loaded when it is first needed."""
