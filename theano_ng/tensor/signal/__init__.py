"""Signal processing: pooling (`pool`) and convolution (`conv`)."""
