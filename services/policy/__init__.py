"""Policy: one door to language models, tokens in, tokens and log-probabilities out.

It answers generations, scores token ids, and takes published weights without a restart; it is the only
service with tokenizers and chat templates. It never calls tools, never keeps conversations between calls
(the caller passes earlier token ids back verbatim) and never serves half-loaded weights.
"""
