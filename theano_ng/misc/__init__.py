"""Tools beside the compiler: containers, serialization, timing scripts."""
