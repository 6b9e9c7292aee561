"""A function of one's own, and all that it can do wrong."""

from __future__ import annotations

import pickle
import sys

import pytest

from audit.core.errors import UsageError
from audit.policies import named
from audit.policies import python as policy_python
from tests.refusals import refusals

CODE = {
    "good": "def find(text):\n    return ((i, i + 1) for i, c in enumerate(text) if c in 'xy')\n",
    "pairs": "def find(text):\n    return [[3, 5], (0, 2), (1, 3), (7, 8)]\n",
    "numpy_": "import numpy as np\ndef find(text):\n    return np.array([[1, 2], [4, 6]])\n",
    "outside": "def find(text):\n    return [(0, len(text) + 1)]\n",
    "negative": "def find(text):\n    return [(-1, 1)]\n",
    "empty": "def find(text):\n    return [(1, 1)]\n",
    "floats": "def find(text):\n    return [(0.0, 1.0)]\n",
    "triple": "def find(text):\n    return [(0, 1, 2)]\n",
    "number": "def find(text):\n    return 3\n",
    "raises": "def find(text):\n    raise KeyError('two\\nlines')\n",
    "late": "def find(text):\n    yield (0, 1)\n    raise OSError('late')\n",
    "broken": "def find(text:\n",
    "endless": "def find(text):\n    while True:\n        pass\n",
    "fails": "raise RuntimeError('at import')\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path, monkeypatch):
    """The modules in the current directory, and none of them imported by an earlier test."""
    for name, code in CODE.items():
        (tmp_path / f"own_{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"own_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    assert sys.path == before
    for name in CODE:
        sys.modules.pop(f"own_{name}", None)


def test_a_function_says_what_is_private():
    policy = named("python:own_good:find")
    assert policy("axyb x") == [(1, 3), (5, 6)]  # touching spans are joined
    assert policy.label == "python:own_good:find"
    assert named("python:own_numpy_:find")("abcdefgh") == [(1, 2), (4, 6)]
    assert named("python:own_pairs:find")("abcdefgh") == [(0, 5), (7, 8)]


def test_a_policy_can_be_pickled():
    sent = pickle.dumps(named("python:own_good:find"))
    del sys.modules["own_good"]
    assert pickle.loads(sent)("ax") == [(1, 2)]


def test_a_module_without_source_has_a_digest():
    assert len(named("python:math:sqrt").digest) == 64
    assert named("python:math:sqrt").digest != named("python:math:floor").digest


def test_what_cannot_be_called_is_refused():
    incomplete = ("python:own_good", "python:own_good:", "python::find")
    refusals(
        named,
        [
            *((text, "needs a module and a function") for text in incomplete),
            ("python:own_good:fnd", "own_good has no function 'fnd'; did you mean 'find'?"),
            ("python:own_good:__name__", "has no function '__name__'"),
            ("python:own_none:find", "importing it failed: ModuleNotFoundError"),
            ("python:own/good:find", "importing it failed: ModuleNotFoundError"),
            ("python:.own_good:find", "importing it failed: TypeError"),
            ("python:own_broken:find", "importing it failed: SyntaxError"),
            ("python:own_fails:find", "importing it failed: RuntimeError: at import"),
        ],
    )


def test_what_a_function_does_wrong_is_said():
    wrong = [
        ("outside", "(0, 5) is not a span of 4 characters"),
        ("negative", "(-1, 1) is not a span of 4 characters"),
        ("empty", "(1, 1) is not a span of 4 characters"),
        ("floats", "(0.0, 1.0) is not a span"),
        ("triple", "(0, 1, 2) is not a span"),
        ("number", "calling it failed: TypeError: 'int' object is not iterable"),
        ("raises", "calling it failed: KeyError: 'two\\nlines'"),
        ("late", "calling it failed: OSError: late"),
    ]
    refusals(
        lambda name: named(f"python:own_{name}:find")("abcd"),
        [(name, (f"policy python:own_{name}:find: ", words)) for name, words in wrong],
    )


def test_a_function_that_never_ends_is_named(monkeypatch):
    monkeypatch.setattr(policy_python, "SECONDS", 0.2)
    with pytest.raises(UsageError, match=r"own_endless:find: calling it took more than 0\.2 s"):
        named("python:own_endless:find")("text")
