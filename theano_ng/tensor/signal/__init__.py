"""Signal processing: pooling (`pool`)."""
