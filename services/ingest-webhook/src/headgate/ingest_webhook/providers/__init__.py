"""The webhook providers: each module of this folder is one, found by its being here."""

from functools import cache
from inspect import getdoc
from sys import modules

from headgate.common.catalogue import Provider, plug_ins
from headgate.common.hooks import Hook

SERVICE = "ingest-webhook"


@cache
def hooks() -> dict[str, Hook]:
    """Every hook by name, which is also its segment of the path."""
    found: dict[str, Hook] = plug_ins(modules[__name__], "HOOK")
    return found


def catalogue() -> list[Provider]:
    """The entry point of `headgate.providers`: what the CLI validates sources against."""
    return [
        Provider(
            name=hook.provider,
            shape="hook",
            service=SERVICE,
            config=hook.config,
            doc=getdoc(hook.config) or "",
            module=hook.receive.__module__,
        )
        for hook in hooks().values()
    ]
