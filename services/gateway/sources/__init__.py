"""What questions can draw on: bundled tables, corpora, vendors, databases and servers of tools, with their health."""
