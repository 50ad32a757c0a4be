"""Log lines: a sentence and its facts. JSON where a machine reads them, plain where a person does."""

from __future__ import annotations

import logging
import sys

import orjson
import structlog

from headgate.common.settings import ServiceSettings


def _render_json(values: object, default: object = None, **_: object) -> str:
    return orjson.dumps(values, default=str).decode()


def configure(settings: ServiceSettings, service: str) -> None:
    """Once, first thing in `__main__`. Libraries log through the same door, from WARNING up."""
    level = getattr(logging, settings.log_level.upper())
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(serializer=_render_json)
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    logging.basicConfig(
        level=max(level, logging.WARNING),
        stream=sys.stderr,
        format="%(asctime)s [%(levelname)s] %(name)s: %(message)s",
        force=True,
    )
