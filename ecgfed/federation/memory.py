"""Keep freed memory in the process: a step's tensors come and go by the megabyte, thousands of times a minute."""

import ctypes
import sys

# <malloc.h> of glibc
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
MIB = 1 << 20


def keep_freed_memory() -> bool:
    """Tell glibc's malloc not to hand memory back to the system after every free; holds for the whole process.

    Otherwise each step pays for fresh pages, a fifth to a third of its time with the reference net
    (benchmarks/throughput). Up to 256 MiB an arena stay with the process.

    Returns:
        Whether it took effect; other systems' allocators are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # no libc to be found, or one without mallopt (musl)
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, 32 * MIB)) and bool(mallopt(M_TRIM_THRESHOLD, 256 * MIB))
