"""ROC figures: nothing is read off where no control could tell, and targets stand apart."""

from __future__ import annotations

import pytest

from audit.results.schema import FindingResult, Results
from reports._content.figure import Figure
from reports._figures import roc as roc_figures
from tests import by_hand as make

COARSE = [(0.0, 0.1), (0.02, 0.3), (0.5, 0.9), (1.0, 1.0)]  # fifty controls
FINE = [(0.0, 0.05), (0.0005, 0.1), (0.001, 0.2), (0.009, 0.3), (0.2, 0.8), (1.0, 1.0)]


def curve(metric: str, roc: list[tuple[float, float]]) -> FindingResult:
    found = make.finding(
        0.7, attack="membership", metric=metric, unit="AUC", roc=roc, ci=(0.6, 0.8)
    )
    assert isinstance(found, FindingResult)
    return found


@pytest.mark.parametrize(
    ("roc", "fpr", "tpr"),
    [
        (COARSE, 0.01, None), (COARSE, 0.001, None), (COARSE, 0.02, 0.3), (COARSE, 0.4, 0.3),
        (FINE, 0.01, 0.3), (FINE, 0.001, 0.2), ([], 0.01, None),
    ],
)  # fmt: skip
def test_the_curve_is_read_only_where_controls_reach(
    roc: list[tuple[float, float]], fpr: float, tpr: float | None
) -> None:
    assert roc_figures._at(roc, fpr) == tpr


def drawn(*found: FindingResult, releases: int = 1) -> list[Figure]:
    one = make.release("none", make.guarantee(None), *found)
    return list(roc_figures.figures(make.named([one] * releases, map(str, range(releases)))))


def test_table_holds_what_can_be_read_off() -> None:
    (figure,) = drawn(curve("record_loss_auc", COARSE), curve("record_min_k_auc", FINE))
    assert figure.table.rows == [
        ["0", "loss", "0.7 [0.6, 0.8]", "too few twins", "too few twins"],
        ["0", "Min-K%", "0.7 [0.6, 0.8]", "30\u00a0%", "20\u00a0%"],
    ]
    assert "0, Min-K%: AUC 0.7 [0.6, 0.8], TPR at 1 % FPR 30\u00a0%" in figure.alternative


def test_each_target_has_its_own_figure() -> None:
    found = [curve(f"{name}_auc", FINE) for name in ("record_loss", "span_loss", "odd")]
    assert [figure.title for figure in drawn(*found)] == [
        "membership, record: ROC on logarithmic axes",
        "membership, span: ROC on logarithmic axes",
        "membership: ROC on logarithmic axes",
    ]


def test_figure_has_a_panel_a_release_a_line_a_score(four: Results) -> None:
    record, _ = (figure for figure in make.report(four).figures if "ROC" in figure.title)
    for told in ("loss", "ratio", "zlib", "Min-K%", "Min-K%++", "submix", "public", "FPR", "TPR"):
        assert f">{told}<" in record.svg, told
    assert len(record.table.rows) == 20


def test_many_releases_are_parted_and_scores_left_out() -> None:
    several = drawn(*(curve(f"record_s{i}_auc", COARSE) for i in range(11)), releases=8)
    assert [figure.title[-11:] for figure in several] == ["part 1 of 2", "part 2 of 2"]
    assert "2 more scores stand in the table" in several[0].caption
    assert len(several[0].table.rows) == 44 and ">s9<" not in several[0].svg


def test_smallest_rate_of_a_double_is_drawn() -> None:
    assert drawn(curve("s_auc", [(5e-324, 0.5), (1.0, 1.0)]))


def test_line_keeps_its_ends_without_close_points() -> None:
    points = [(0.001, 0.0), (0.1, 0.5), (0.1005, 0.5), (0.9999, 1.0), (1.0, 1.0)]
    assert roc_figures._thinned(points, 1e-3) == [points[0], points[2], points[4]]
