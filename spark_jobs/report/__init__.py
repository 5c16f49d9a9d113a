"""The daily report: its content, page and plots."""
