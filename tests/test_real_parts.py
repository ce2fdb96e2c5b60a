"""A machine that lacks a real part skips its tests, but not where every part was promised."""

import pytest

from tests.support.object_store import ObjectStore
from tests.support.parts import missing


@pytest.mark.parametrize(("promised", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_part_skips_a_test_or_fails_it_where_it_was_promised(
    monkeypatch: pytest.MonkeyPatch, promised: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("DPBAYES_REQUIRE_REAL_PARTS", promised)
    with pytest.raises(outcome, match="no teapot on this machine: buy one"):
        missing("teapot", "buy one")


def test_an_object_store_without_its_server_is_such_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_REQUIRE_REAL_PARTS", "1")
    monkeypatch.setattr("tests.support.object_store.PARTS", ("moto", "a_library_that_nobody_wrote"))
    with pytest.raises(pytest.fail.Exception, match="no S3 server on this machine"):
        ObjectStore()
