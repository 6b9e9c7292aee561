"""How to reproduce a sweep: the plan file beside its results gives the same sweep."""

from audit.run.sweep import sweep as sweeping

PLAN = """
delta = 1e-6
utility_tokens = 64
attack = ["extraction:generations=9", "membership"]

[planting]
users = 12

[sweep]
defense = ["dp_sgd", "submix:k=2"]
epsilon = [1, 8]
seeds = [3, 4]

[sweep.dp_sgd]
clip = [0.1, 0.5]
"""


def test_the_plan_file_that_is_written_is_the_same_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(PLAN)
    one = sweeping.resolve(*sweeping.read(path, {"device": "cpu"}))
    again = tmp_path / sweeping.PLAN_FILE
    again.write_text(one.plan_file)
    other = sweeping.resolve(*sweeping.read(again, {}))
    assert other.hash == one.hash
    assert other.plan_file == one.plan_file
