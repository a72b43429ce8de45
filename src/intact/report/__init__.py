"""Tables and HTML pages from plain data: results, histograms and thresholds. Imports no framework."""

from intact.report.analysis_page import decibels, sum_in_words, write_analysis
from intact.report.histogram_panel import Panel, curve, panel
from intact.report.html_page import Figure, Page, render, write_page
from intact.report.language_page import write_comparison
from intact.report.migration_page import figures as migration_figures
from intact.report.migration_page import migration_page
from intact.report.migration_page import summary as migration_summary
from intact.report.table import Cell, ReportTable, to_rich
from intact.report.tuning_page import write_tuning

__all__ = [
    "Cell",
    "Figure",
    "Page",
    "Panel",
    "ReportTable",
    "curve",
    "decibels",
    "migration_figures",
    "migration_page",
    "migration_summary",
    "panel",
    "render",
    "sum_in_words",
    "to_rich",
    "write_analysis",
    "write_comparison",
    "write_page",
    "write_tuning",
]
