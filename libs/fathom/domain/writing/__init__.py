"""Answers in words, English and Chinese, written from typed results without a language model."""
