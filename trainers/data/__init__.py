"""Prompts with verifiable answers: the parquet schema, question sets converted to it, and batches for training.

``records`` defines the schema, ``convert`` converts question-answering sets to it, ``instructions`` holds the prompt
texts, ``dataset`` and ``loader`` make batches whose position can be saved and restored.
"""
