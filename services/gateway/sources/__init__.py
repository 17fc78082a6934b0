"""Sources of questions: bundled tables, corpora, vendors, databases and servers of tools, with their health."""
