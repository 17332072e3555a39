"""Limits of a device by trying: launches until one is refused, and occupancy queries.

| value | how |
| --- | --- |
| `gpu threads_per_block`, `gpu shared_bytes_per_block`, `gpu registers_per_thread`, `gpu cluster_blocks` | the largest that launches |
| `gpu threads_per_sm`, `gpu blocks_per_sm` | the most that occupancy queries let reside |
| `gpu registers_per_sm`, `gpu register_allocation_unit` | the only sizes that explain the blocks of kernels of growing registers |
| `gpu shared_bytes_per_sm`, `gpu shared_bytes_reserved_per_block`, `gpu shared_allocation_unit` | likewise, of growing shared memory |

What the driver tells stays told where nothing contradicts it, and measurements that do replace it.
"""

from __future__ import annotations

from gemmgen.bringup.session import Session


def measure(session: Session) -> None:
    """The limits of a row."""
