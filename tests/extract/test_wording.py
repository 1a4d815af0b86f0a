import pytest

from extract.wording import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2000, ("record",), "2,000 records"),
        (1, ("class",), "1 class"),
        (3, ("forward pass",), "3 forward passes"),
        (2, ("identity", "identities"), "2 identities"),
    ],
)
def test_counted(number, words, said):
    assert counted(number, *words) == said
