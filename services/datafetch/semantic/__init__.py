"""The semantic layer: what can be asked for, under which names, and in which table it stands.

It is data, not code: folders of versioned YAML files beside parquet, CSV or XLSX tables. The library of this package
is one such folder; ``datafetch.semantic`` in the settings lists further ones.
"""
