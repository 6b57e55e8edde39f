"""The programs that are compared. Each calls `observing.observe` from its handler, and does nothing else."""
