"""Two trainings at once whose driver and services are all killed end as the same trainings undisturbed.

The rehearsal of ``tests/bench`` in short: its learners are in their drivers. What needs Ray's nodes is tested alone
(``test_two_nodes.py``, ``test_train_ray.py``); all of it together takes minutes (``python -m tests.bench rehearsal``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.trainers.rehearsal import (
    ALGORITHMS,
    ALL,
    Rehearsal,
    Strike,
    find_differences,
    list_broken_bounds,
    rehearse,
)
from tests.integration.s3_server import needs_rclone

# Far beyond what a play takes, a minute alone and some beside other programs: only one that hangs takes so long.
PLAY_WITHIN_S = 700.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * PLAY_WITHIN_S + 400), needs_rclone]
# The kills come between the second and the third step: before them there is something to lose, after them to differ.
STEPS, KILLED_AT = 5, 2


async def test_trainings_whose_parts_are_all_killed_end_with_weights_and_metrics_of_the_undisturbed(
    tmp_path: Path, tables_dir: Path, corpus_dir: Path
) -> None:
    # Without sentence encoders: these episodes neither search nor compute.
    data = tmp_path / "home" / "data"
    data.mkdir(parents=True)
    for bundle in (tables_dir, corpus_dir):
        (data / bundle.name).symlink_to(bundle)
    strikes = [Strike(ALL, KILLED_AT)]
    rehearsal = Rehearsal(tmp_path, STEPS, has_nodes=False, store_away_s=0)
    rehearsal.within_s = PLAY_WITHIN_S
    quiet, struck = await rehearse(rehearsal, strikes)
    assert list_broken_bounds(strikes, find_differences(quiet, struck, strikes)) == []
    assert all(quiet.weights.values()), "a file of weights is named by the checksum of what is in it"
    assert {name: max(lines) for name, lines in struck.lines.items()} == dict.fromkeys(ALGORITHMS, STEPS)
    assert quiet.attempts == dict.fromkeys(ALGORITHMS, 1)
    assert max(struck.attempts.values()) > 1, "a driver was killed, and started again"
