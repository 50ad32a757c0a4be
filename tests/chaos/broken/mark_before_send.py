"""A processor with a bare "seen" mark: it forgets *where* it saw a fingerprint, so what is read again is a repeat."""

import runpy

from headgate.processor import sightings

_decode = sightings.decode


def elsewhere(value: bytes) -> sightings.Sightings:
    """What was remembered, at a place where no record stands."""
    return tuple(one._replace(offset=-1 - one.offset) for one in _decode(value))


sightings.decode = elsewhere
runpy.run_module("headgate.processor", run_name="__main__")
