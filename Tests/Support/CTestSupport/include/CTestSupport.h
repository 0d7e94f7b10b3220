// Nothing to call: see parallelization.c.
