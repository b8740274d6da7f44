"""Name space of modules that began as experiments; import the one you need."""
