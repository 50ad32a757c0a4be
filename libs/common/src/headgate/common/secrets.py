"""Secrets by reference: a spec says where a secret is, never what it is.

Topics are readable by many and kept for long, so a literal secret in a spec is refused with the way out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretBytes, model_validator

from headgate.common.errors import Misconfigured


class SecretRef(BaseModel):
    """Where a service finds a secret: an environment variable or a file (a mounted Kubernetes secret)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            description="Environment variable of the service that uses the secret.",
            examples=["GITHUB_WEBHOOK_SECRET"],
        ),
    ] = None
    file: Annotated[
        Path | None,
        Field(
            description="File that holds the secret; one newline at its end is not part of it.",
            examples=["/etc/headgate/secrets/github"],
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _no_literals(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(
                "a secret itself does not belong in a spec: topics are readable. "
                "Write {env: NAME} or {file: /path} and give the value to the service"
            )
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> SecretRef:
        if (self.env is None) == (self.file is None):
            raise ValueError("write exactly one of env or file")
        return self

    def resolve(self) -> SecretBytes:
        """The secret, read now. Misconfigured says where it was looked for, never what was found."""
        if self.env is not None:
            value = os.environ.get(self.env, "").encode()
            where = f"environment variable {self.env}"
        else:
            where = f"file {self.file}"
            try:
                value = Path(str(self.file)).read_bytes().removesuffix(b"\n").removesuffix(b"\r")
            except OSError as problem:
                raise Misconfigured(f"the secret in {where} cannot be read: {problem.strerror}") from problem
        if not value:
            raise Misconfigured(
                f"the secret in {where} is empty or not set; set it for the service that uses it"
            )
        return SecretBytes(value)
