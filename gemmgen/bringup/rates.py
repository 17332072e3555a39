"""Rates of a device by generated microbenchmarks, each repeated, with its spread; refused where the clock changed between repeats.

Values that a row of specs/gpus has; what a row's field means is the peak:

| value | from |
| --- | --- |
| `gpu sms` | the SMs that blocks of a launch ran on |
| `gpu boost_mhz`, `gpu tensor_boost_mhz` | SM clock under FP32 work and under the matrix instruction of FP16, in bursts, MHz |
| `gpu f32_fma_per_clock` | of an SM, the least power of two that is not below what was reached |
| `gpu tensor_fma_per_clock` | likewise, {word: FMA}, of the fastest instruction of a word |
| `gpu f16_tflops`, `gpu f32_tflops` | SMs, clock and multiply-adds |
| `gpu shared_bytes_per_clock`, `gpu shared_banks` | of an SM, powers of two likewise |
| `gpu dram_gb_per_s` | the driver's memory clock and bus width where it tells them, else what was reached |
| `gpu dram_gib`, `gpu l2_mib` | the driver, else working sets |

Raw values, what kernels reach, by medians:

| value | unit |
| --- | --- |
| `rate FRAGMENT fma_per_clock`, `rate FRAGMENT latency_cycles` | of one SM; of dependent instructions |
| `rate f32 fma_per_clock`, `rate f32 latency_cycles` | |
| `rate shared bytes_per_clock`, `rate shared latency_cycles`, `rate shared bank_bytes` | of one SM |
| `rate l2 bytes_per_clock`, `rate l2 latency_cycles`, `rate l2 mib` | of one SM while all read; by working sets |
| `rate dram read_gb_per_s`, `rate dram write_gb_per_s`, `rate dram copy_gb_per_s`, `rate dram latency_ns` | 10^9 bytes a second |
| `rate async_copy bytes_per_clock`, `rate bulk_copy bytes_per_clock` | L2 to shared memory, of one SM while all copy |
| `rate host to_device_gb_per_s`, `rate host from_device_gb_per_s` | page-locked memory |
| `rate launch gap_us`, `rate launch dependent_gap_us`, `rate launch round_trip_us` | end of a kernel to the next one's first instruction; seen from the host |
| `rate clock sustained_mhz`, `rate clock sustained_tflops`, `rate clock power_w`, `rate clock power_limit_w` | FP16 products of random words, about half a second |
"""

from __future__ import annotations

from gemmgen.bringup.session import Session


def measure(session: Session) -> None:
    """The rates of a row, and what kernels reach of them."""
