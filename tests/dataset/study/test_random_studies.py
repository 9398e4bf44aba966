"""Designs of random studies: nothing that differs is pooled or summed, and nearly all are right as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

import pytest

from citus_analysis.dataset.study_design import Member, read_design
from tests.shards import take_part

from .random_studies import Study, random_evidence, studies

#: 500 studies, of which `make test` takes one half; with `-m slow`, 1,500 more.
SHARDS = [0, 1, *(pytest.param(number, marks=pytest.mark.slow) for number in range(2, 8))]
STUDIES = 250
#: Of the designs, at least this share is right as a whole.
RIGHT = 0.95
#: Studies in which names say too little, a hundred of each habit.
EVIDENCE = 600
#: The same share of these.
RIGHT_BY_EVIDENCE = 0.9


def _cell(member: Member) -> Hashable:
    identity = member.file.identity
    return identity.set_up, identity.workers, member.own.threads, identity.threads, identity.records, identity.workload


def _in_columns(member: Member) -> list[tuple[str, str]]:
    """Conditions that are columns of runs; others are only kept apart by the name of the set-up."""
    return [one for one in member.own.conditions if one[0] in ("script", "query mode")]


def _mixed(pairs: Iterable[tuple[Hashable, Hashable]]) -> bool:
    """Whether what is found as one is several in truth."""
    truths: dict[Hashable, set[Hashable]] = defaultdict(set)
    for found, truth in pairs:
        truths[found].add(truth)
    return any(len(of) > 1 for of in truths.values())


def judged(study: Study) -> tuple[bool, bool]:
    """Whether different results were pooled or summed, and whether all is right."""
    members = read_design(study.files).members
    runs = [(m.file.identity.run_id, truth.run) for m, truth in zip(members, study.truths, strict=True)]
    cells = [(_cell(m), truth.cell) for m, truth in zip(members, study.truths, strict=True)]
    wrong = _mixed(runs) or _mixed(cells)
    split = _mixed((truth, found) for found, truth in (*runs, *cells))
    workers = all(m.file.identity.workers == truth.workers for m, truth in zip(members, study.truths, strict=True))
    repeats = [(_cell(m), m.file.identity.iteration, m.file.identity.run_id) for m in members]
    unique = not _mixed(((cell, iteration), run) for cell, iteration, run in repeats)
    return wrong, not wrong and not split and workers and unique


@pytest.mark.sharded(2)
@pytest.mark.parametrize("shard", SHARDS)
def test_nothing_that_differs_is_pooled_or_summed(shard: int) -> None:
    found = {seed: judged(study) for seed, study in studies(range(shard * STUDIES, (shard + 1) * STUDIES))}
    assert [seed for seed, (wrong, _) in found.items() if wrong] == []
    assert sum(right for _, right in found.values()) >= RIGHT * len(found)


def test_numbers_are_repeats_only_if_words_contents_and_results_agree() -> None:
    wrong, right = [], 0
    seeds = take_part(range(EVIDENCE), 5)
    for seed in seeds:
        study = random_evidence(seed)
        members = read_design(study.files).members
        cells = [
            (m.file.identity.set_up, m.file.identity.threads, m.file.identity.drivers, m.own.target, *_in_columns(m))
            for m in members
        ]
        found = [(cell, m.file.identity.run_id) for cell, m in zip(cells, members, strict=True)]
        truths = [(truth.cell, truth.run) for truth in study.truths]
        if _mixed(zip(cells, (cell for cell, _ in truths), strict=True)) or _mixed(zip(found, truths, strict=True)):
            wrong.append((seed, study.habit))
        else:
            split = _mixed(zip((cell for cell, _ in truths), cells, strict=True))
            right += not split and not _mixed(zip(truths, found, strict=True))
    assert wrong == []
    assert right >= RIGHT_BY_EVIDENCE * len(seeds)
