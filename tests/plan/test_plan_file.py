"""The plan file written beside a sweep gives its settings again."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from audit.plan.plan_file import to_toml

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.one_of(texts, st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False))
values = st.one_of(plain, st.lists(plain, max_size=4))
keys = st.one_of(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), texts)
tables = st.recursive(
    st.dictionaries(keys, values, max_size=4),
    lambda inner: st.dictionaries(keys, st.one_of(values, inner), max_size=4),
    max_leaves=6,
)


@given(tables)
def test_what_is_written_reads_the_same(table):
    assert tomllib.loads(to_toml(table)) == table


def test_what_was_not_given_is_left_out():
    settings = {"seed": 0, "delta": None, "defense": ("dp_sgd",), "sweep": {"seeds": [0, 1]}}
    assert to_toml(settings) == 'seed = 0\ndefense = ["dp_sgd"]\n\n[sweep]\nseeds = [0, 1]\n'
