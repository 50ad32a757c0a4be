"""What the CLI, the docs and the tests may know of this service's providers."""

from __future__ import annotations

import inspect

from headgate.common.catalogue import Provider, plug_ins
from headgate.poller import sources


def providers() -> list[Provider]:
    """The entry point `headgate.providers`."""
    return [
        Provider(
            name=source.name,
            shape="poll",
            service="poller",
            config=source.config,
            doc=inspect.cleandoc(source.config.__doc__ or ""),
            module=source.fetch.__module__,
        )
        for source in plug_ins(sources, "SOURCE").values()
    ]
