"""What can be asked about: the analysis frameworks and the names of the catalogue."""
