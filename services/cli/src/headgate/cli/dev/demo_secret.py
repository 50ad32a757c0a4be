"""The secret that the demo's webhooks are signed with. `headgate dev` hands it on, so that its trigger stays live."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

SECRET_VARIABLE = "HEADGATE_DEMO_GITHUB_SECRET"  # noqa: S105 its name, not its value
SECRET_FILE = "demo.secret"  # noqa: S105


def secret_env(directory: Path, *, create: bool = False) -> dict[str, str]:
    """The webhook secret of the demo's source, made once and kept in the folder; the environment wins."""
    given = os.environ.get(SECRET_VARIABLE)
    if given:
        return {SECRET_VARIABLE: given}
    path = directory / SECRET_FILE
    if create and not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(20))
    return {SECRET_VARIABLE: path.read_text().strip()} if path.exists() else {}
