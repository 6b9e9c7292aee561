"""Makes the checks of defenses cheaper: no check depends on how well a model writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import narrow


@pytest.fixture(autouse=True, scope="module")
def _narrow_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Toy trainings start from a narrow model; the docs' pages start them from the embedded one."""
    from audit.contract import defenses
    from audit.core.embedded import EMBEDDED_FOLDER
    from audit.models.loading import describe

    described = describe(str(narrow(tmp_path_factory.mktemp("narrow"))), EMBEDDED_FOLDER)
    caches = (defenses._cached_release, defenses._public)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defenses, "_model", lambda: described)
        for cache in caches:
            cache.cache_clear()
        yield
    for cache in caches:
        cache.cache_clear()
