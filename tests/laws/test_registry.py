"""Registry: by hand, laws over every kind, refusals."""

import sys
import textwrap

import pytest

from fabriclab import registry


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Point the kind ``topology`` at a package of its own, and forget everything afterwards."""
    package = tmp_path / "variants_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.FOLDERS, "topology", package.name)
    for store, fresh in (("_found", {}), ("_about", {}), ("_listed", set())):
        monkeypatch.setattr(registry, store, fresh)
    yield package
    for name in [m for m in sys.modules if m.startswith(package.name)]:
        del sys.modules[name]


def write(package, name, body):
    (package / f"{name}.py").write_text(
        "from fabriclab.registry import register\n\n" + textwrap.dedent(body), encoding="utf-8"
    )


# by hand ------------------------------------------------------------------------------------------
def test_a_file_in_the_folder_is_enough(empty):
    write(
        empty,
        "star",
        """
        @register("topology", "star", small={"n": 3})
        def star(n):
            return "star", n
    """,
    )
    write(
        empty,
        "mesh",
        """
        @register("topology", "mesh")
        def mesh(n):
            return "mesh", n
    """,
    )
    assert registry.names("topology") == ("mesh", "star")
    assert registry.get("topology", "star")(3) == ("star", 3)
    assert registry.info("topology", "star") == {"small": {"n": 3}}
    assert registry.info("topology", "mesh") == {}


def test_files_are_loaded_on_first_use_and_once(empty):
    write(
        empty,
        "star",
        """
        import builtins
        builtins.star_was_loaded = getattr(builtins, "star_was_loaded", 0) + 1

        @register("topology", "star")
        def star(n):
            return n
    """,
    )
    import builtins

    try:
        assert not hasattr(builtins, "star_was_loaded")
        registry.names("topology")
        registry.get("topology", "star")
        assert builtins.star_was_loaded == 1
    finally:
        del builtins.star_was_loaded


def test_the_decorator_returns_the_function_itself(empty):
    def star(n):
        return n

    assert registry.register("topology", "star")(star) is star


def test_kinds_do_not_share_names(empty):
    registry.register("topology", "ring")(lambda: 1)
    assert "ring" not in registry._found.get("engine", {})


# laws ---------------------------------------------------------------------------------------------
def test_a_file_may_be_loaded_again(empty):
    body = """
        @register("topology", "star")
        def star(n):
            return n
    """
    write(empty, "star", body)
    import importlib

    registry.names("topology")
    importlib.reload(sys.modules[f"{empty.name}.star"])
    assert registry.names("topology") == ("star",)


# refusals -----------------------------------------------------------------------------------------
def test_a_name_is_given_once(empty):
    for name in ("star", "other"):
        write(
            empty,
            name,
            """
            @register("topology", "star")
            def star(n):
                return n
        """,
        )
    with pytest.raises(ValueError, match=r"topology 'star' .*other.*choose another name"):
        registry.names("topology")


def test_an_unknown_name_is_answered_with_the_list(empty):
    registry.register("topology", "star")(lambda: 2)
    registry.register("topology", "mesh")(lambda: 1)
    assert registry.names("topology") == ("mesh", "star")
    for ask in (registry.get, registry.info):
        with pytest.raises(ValueError, match="unknown topology 'ring'; choose one of mesh, star"):
            ask("topology", "ring")


def test_an_unknown_kind_is_answered_with_the_list():
    asks = (registry.names, lambda k: registry.get(k, "x"), lambda k: registry.info(k, "x"))
    for ask in (*asks, lambda k: registry.register(k, "x")):
        with pytest.raises(
            ValueError, match=r"kind must be one of topology, collective, .*got 'color'"
        ):
            ask("color")


def test_a_broken_file_is_no_secret_and_is_tried_again(empty):
    write(empty, "star", "raise RuntimeError('half written')\n")
    with pytest.raises(RuntimeError, match="half written"):
        registry.names("topology")
    write(
        empty,
        "star",
        """
        @register("topology", "star")
        def star(n):
            return n
    """,
    )
    import importlib

    importlib.invalidate_caches()
    assert registry.names("topology") == ("star",)
