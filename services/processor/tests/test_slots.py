"""A processor's own folder: never shared, and a sentence for people where there can be none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.common.errors import Misconfigured
from headgate.processor import slots


def test_two_processes_on_one_machine_get_a_folder_each_and_a_freed_one_is_taken_again(
    tmp_path: Path,
) -> None:
    first, second = slots.take(tmp_path), slots.take(tmp_path)
    with second.lock:
        assert (first.directory.name, second.directory.name) == ("0", "1")
        first.lock.close()
        again = slots.take(tmp_path)
        with again.lock:
            assert again.directory == first.directory


def test_a_folder_that_cannot_be_made_is_a_sentence_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match=r"cannot be written: Not a directory.*HEADGATE_STATE_DIR"):
        slots.take(tmp_path / "file" / "processor")
