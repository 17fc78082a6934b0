"""The semantic layer: entities and indicators, their names, and the tables that hold them.

It is data, not code: folders of versioned YAML files beside parquet, CSV or XLSX tables. The library of this package is
one such folder; ``datafetch.semantic`` in the settings lists further ones.
"""
