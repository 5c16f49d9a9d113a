"""Every recorded vector runs through the conformance runner: what Kafka's classes did is what the core does."""

from collections import Counter

import pytest

from tests.conformance.runner import outcome_of
from tests.differential.recorded import VECTORS, differences, vectors

SUITES = sorted(path.name.removesuffix(".jsonl.xz") for path in VECTORS.glob("*.jsonl.xz"))
# Named in docs/fidelity.md: two faults in one call, where Kafka abandons it in the middle; and which of several
# creations a failing client had begun.
EXPLAINED = {"diff-02-101-1338", "diff-02-101-1910", "diff-03-101-58", "diff-03-101-2702"}


@pytest.mark.parametrize("suite", SUITES)
def test_the_core_does_what_kafkas_classes_did(suite):
    found = {}
    for vector in vectors(VECTORS / f"{suite}.jsonl.xz"):
        told = outcome_of(vector)
        if vector["name"] not in EXPLAINED:
            found[vector["name"]] = differences(vector, told.get("outcome", {"error": str(told)}))
    assert {name: told[:2] for name, told in found.items() if told} == {}


@pytest.mark.parametrize(
    ("suite", "least"),
    [("01", 2000), ("01b", 2000), ("02", 1800), ("03", 1800), ("04", 2000), ("05", 600), ("06", 2000), ("07", 1900)],
)
def test_each_corpus_is_there(suite, least):
    assert sum(1 for _ in vectors(VECTORS / f"{suite}.jsonl.xz")) >= least


def test_an_outcome_that_differs_is_noticed():
    """The judge itself: each recorded fact that is changed is missed."""
    counts = Counter()
    for suite in SUITES:
        vector = next(v for v in vectors(VECTORS / f"{suite}.jsonl.xz") if v["name"] not in EXPLAINED)
        outcome = outcome_of(vector)["outcome"]
        for key in vector["expected"]:
            if key in outcome:
                counts[bool(differences(vector, outcome | {key: "changed"}))] += 1
    assert counts[True] > 20
