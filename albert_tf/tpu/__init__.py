"""TPUs: what must be installed, how a step is lowered and compiled for one, and what the compiler says of it."""
