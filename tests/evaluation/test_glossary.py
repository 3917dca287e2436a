"""The reference page says what METRICS says."""

from pathlib import Path

from lookalike.evaluation.glossary import reference_sections, reference_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_reference_page_holds_every_metric():
    text = PAGE.read_text(encoding="utf-8")
    assert reference_table() in text
    assert reference_sections() in text
