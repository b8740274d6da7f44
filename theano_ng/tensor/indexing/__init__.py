"""Indexing: parts of tensors, and increments of them.

==============  ======================================================================
`lists`         what the Ops and rewrites share: index lists, their inputs, slices in canonical form
`subtensor`     the classic module: views by integers and slices, their increments, what users call
`advanced`      indexing by arrays and masks
`code`          C code that subclasses of `IncSubtensor` change piece by piece
`inc_code`      C text for Ops of users that increment indexed arrays
`selecting`     `nonzero`, `choose`, `default`
`positions`     `searchsorted`, conversions between flat and n-d indices
==============  ======================================================================
"""
