"""The ``vllm`` backend: AsyncLLM in this process, on GPUs or by its CPU build."""
