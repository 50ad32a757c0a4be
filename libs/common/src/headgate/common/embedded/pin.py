"""Write artifacts.lock anew: `python -m headgate.common.embedded.pin`, after changing a version here."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from headgate.common.embedded.download import LOCK_FILE, Artifact

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"
KAFKA_LOG = "org.slf4j:slf4j-simple:1.7.36"  # Kafka brings no log writer of its own
REGISTRY = ("io.apicurio", "apicurio-registry-app", "3.3.3")

HEADER = """\
# Made by `python -m headgate.common.embedded.pin`: role, group:name:version:packaging:classifier, size, SHA-256.
"""


def main() -> None:
    import jgo
    from jgo.maven import MavenContext

    context = MavenContext()
    group, name, version = REGISTRY
    registry = context.project(group, name).at_version(version).artifact(classifier="all", packaging="tar.gz")
    found = [_artifact("registry", registry)]
    kafka = {str(one): one for one in [*jgo.resolve(KAFKA), *jgo.resolve(KAFKA_LOG)]}
    found += sorted((_artifact("kafka", one) for one in kafka.values()), key=lambda one: one.line())
    LOCK_FILE.write_text(HEADER + "".join(one.line() + "\n" for one in found), "utf-8")
    print(f"pinned {len(found)} files in {LOCK_FILE.name}")


def _artifact(role: str, found: Any) -> Artifact:
    content = Path(found.resolve()).read_bytes()
    return Artifact(
        role,
        found.groupId,
        found.artifactId,
        found.version,
        found.packaging,
        found.classifier,
        len(content),
        hashlib.sha256(content).hexdigest(),
    )


if __name__ == "__main__":
    main()
