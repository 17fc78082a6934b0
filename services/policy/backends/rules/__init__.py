"""The ``rules`` engine: the reference policy (``services/policy/reference``) with a tokenizer, ids and completions."""
