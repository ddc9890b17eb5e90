"""Pictures beside the lessons are those that the library draws now."""

import pytest

import pictures


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_committed_picture_is_what_the_library_draws(name):
    held = (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert pictures.numbers_rounded(held) == pictures.numbers_rounded(pictures.drawn(name)), (
        "draw it anew with: python tools/pictures.py"
    )


def test_no_picture_lies_there_unused():
    assert sorted(p.stem for p in pictures.FOLDER.iterdir()) == sorted(pictures.PICTURES)
