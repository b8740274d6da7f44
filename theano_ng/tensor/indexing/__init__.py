"""Indexing: reading parts of tensors, and incrementing or setting them."""
