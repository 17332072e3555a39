"""What the emulated machines share: matrix units and roundings, memory, banks, launches, strips of blocks, and how a fault is told."""
