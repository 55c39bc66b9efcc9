"""The audit of a data directory: every record verified, figures of what it holds, as tables, text and HTML."""
