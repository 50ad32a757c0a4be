"""What a service of many threads asks of its process: before anything else, and once it is up."""

from __future__ import annotations

import ctypes
import gc
import sys

_TUNED = {
    -8: 2,  # M_ARENA_MAX: each of our dozen threads would get a heap of its own, and none of them shrinks again
    -3: 256
    * 1024,  # M_MMAP_THRESHOLD: fixed, or the first large buffer freed sends all later ones to the heap
    -1: 1024 * 1024,  # M_TRIM_THRESHOLD: what is free at a heap's end goes back to the system
}
"""What glibc is told with mallopt. Fetched and unsent records come and go by the megabyte."""
_HANDOVER_SECONDS = 0.0001


def tune() -> None:
    """Call it first: heaps that threads have already are kept."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        for what, value in _TUNED.items():
            mallopt(what, value)
    # A thread that has waited for another waits for the interpreter's lock too: by default up to 5 ms each time.
    sys.setswitchinterval(_HANDOVER_SECONDS)


def settle() -> None:
    """Call it once everything is made: looking through that again and again for garbage shows in the slowest events."""
    gc.collect()
    gc.freeze()
