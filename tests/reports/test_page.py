"""Page one stays one page: what it shows first, and what it says it leaves to the details."""

from __future__ import annotations

from types import SimpleNamespace

from reports import _page


def test_refuted_and_references_are_never_crowded_out(make: SimpleNamespace) -> None:
    audited = [
        make.release("dp_sgd", make.guarantee(float(e)), *(make.finding(0.0) for _ in range(5)))
        for e in range(1, 20)
    ]
    audited.append(
        make.release(
            "last", make.guarantee(1.0), make.finding(0.0), make.finding(1.0, verdict="refuted")
        )
    )
    control = make.release(
        "public", make.guarantee(0.0), make.finding(0.0), reference=True, role="null control"
    )
    page = _page.build(_page.inert(make.run(*audited, control)))
    shown = [(block.name, row.verdict) for block in page.blocks for row in block.rows]
    assert ("last", "refuted") in shown and ("public", "silent") in shown
    assert len(shown) + len(page.blocks) <= _page.TABLE_LINES
    assert f"{len(shown)} of 98 findings are shown" in page.summary_note


def test_guarantees_that_agree_are_told_once(make: SimpleNamespace) -> None:
    same = [
        make.release("dp_sgd", make.guarantee(8.0), make.finding(0.0), seed=seed)
        for seed in range(4)
    ]
    page = _page.build(_page.inert(make.run(*same)))
    assert [promise.name for promise in page.promises] == ["dp_sgd seed=0 and 3 more"]


def test_long_guarantees_are_left_to_the_details(make: SimpleNamespace) -> None:
    long = [
        make.release(name, make.guarantee(1.0, theorem=name + " word" * 200), make.finding(0.0))
        for name in ("a", "b", "c")
    ]
    page = _page.build(_page.inert(make.run(*long)))
    assert len(page.promises) == 1 and page.promises_note.startswith("2 more stand")
    assert [detail.theorem[0] for detail in page.details] == ["a", "b", "c"]


def test_a_stronger_attack_is_marked(make: SimpleNamespace) -> None:
    strong = make.finding(0.9, stronger_than_release=True, verdict="not comparable")
    page = _page.build(_page.inert(make.run(make.release("submix", make.guarantee(2.0), strong))))
    assert "stronger than the release" in page.blocks[0].rows[0].measurement
    assert ("Standing", "reads more than the release gives: no evidence on the claim") in (
        page.details[0].notes[0].facts
    )
