from visbench import layout
from visbench.layout import Cell, Column

COLUMNS = [Column("name"), Column("top1", "right"), Column("train", "right", faint=True)]


def test_columns_stand_under_each_other():
    assert layout.text(COLUMNS, [("a", "1", "10"), ("long name", "0.25", "")]).split("\n") == [
        " name       top1  train",
        " a             1     10",
        " long name  0.25",
    ]


def test_wide_and_combining_characters_take_their_places():
    assert [layout.width(word) for word in ("abc", "写真", "e\u0301", "🦊")] == [3, 4, 1, 2]
    lines = layout.text(COLUMNS[:2], [("写真", "1"), ("abcd", "2")]).split("\n")
    assert lines[1:] == [" 写真     1", " abcd     2"]


def test_a_name_cannot_break_the_table():
    lines = layout.text(COLUMNS[:1], [("a\nb\x1b[31m\u2028\udcff",)]).split("\n")
    assert lines == [" name", " a\\nb\\x1b[31m\\u2028\\udcff"]


def test_styles_add_no_width():
    rows = [("a", Cell("0.9", bold=True), "1")]
    styled = layout.text(COLUMNS, rows, styled=True)
    assert "\x1b[1m 0.9\x1b[0m" in styled
    assert "\x1b[2m    1\x1b[0m" in styled
    assert "\x1b" not in layout.text(COLUMNS, rows)


def test_markdown_says_what_it_says():
    assert layout.markdown(COLUMNS[:2], [("a|b*<c", Cell("0.9", bold=True))]).split("\n") == [
        "| name | top1 |",
        "| --- | ---: |",
        "| a\\|b\\*&lt;c | **0.9** |",
    ]
