"""Policy: the service in front of language models, with token ids and log-probabilities in every response.

It generates completions, scores token ids, and activates published weights without a restart; it is the only
service with tokenizers and chat templates. It never executes tools, keeps no conversation state between calls
(the caller passes earlier token ids back verbatim) and never serves partially loaded weights.
"""
