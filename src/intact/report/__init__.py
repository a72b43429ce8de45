"""Tables and HTML pages from plain data: results, histograms and thresholds. Imports no framework."""

from intact.report.histogram import Panel, curve, panel
from intact.report.page import Page, write_page
from intact.report.table import ReportTable, to_rich

__all__ = ["Page", "Panel", "ReportTable", "curve", "panel", "to_rich", "write_page"]
