"""Files that are made to fill memory, the doors of the services that read such files, and a benchmark of both."""
