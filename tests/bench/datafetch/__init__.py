"""Benchmarks of datafetch: cells of questions, over the bundled tables and over annual reports."""
