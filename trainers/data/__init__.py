"""Prompts with verifiable answers: parquet files, the sets they come from, and the way into a training loop.

``records`` is the schema (row SR33), ``convert`` brings question-answering sets into it (SR34), ``instructions`` holds
what a model is told (SR35), ``dataset`` and ``loader`` make batches of it whose position can be saved (SR36 to SR38).
"""
