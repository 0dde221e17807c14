"""Keep freed memory in the process: every step allocates and frees megabytes of tensors."""

import ctypes
import sys

# <malloc.h> of glibc
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
MIB = 1 << 20


def keep_freed_memory() -> bool:
    """Stop glibc's malloc from returning memory to the system after every free, for the whole process.

    Page faults otherwise cost a fifth to a third of each step with the reference net (benchmarks/throughput). Up to
    256 MiB per arena stay allocated.

    Returns:
        Whether it took effect; other systems' allocators are not changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # no libc to be found, or one without mallopt (musl)
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, 32 * MIB)) and bool(mallopt(M_TRIM_THRESHOLD, 256 * MIB))
