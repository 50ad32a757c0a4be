"""Pieces that several blocks of the values are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Values(BaseModel):
    """A block of our own: a key we do not know is a typing error, and refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


Kubernetes = dict[str, Any]
"""An object that Kubernetes itself describes and checks; it is passed on as it is."""

Name = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=253)]
"""The name of an object of Kubernetes, or nothing."""

Labels = dict[str, str]


class Resources(BaseModel):
    """CPU and memory."""

    model_config = ConfigDict(extra="forbid")

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Environment(BaseModel):
    """One environment variable, as in a container."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(min_length=1)]
