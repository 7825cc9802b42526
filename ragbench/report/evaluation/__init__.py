"""One evaluation as a record, and as report.json, report.md and report.html."""
