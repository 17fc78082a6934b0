"""Export of stored episodes from production and rollouts as training data for SFT, DPO and PPO.

SFT uses successful episodes; DPO uses pairs of a better and a worse continuation of the same messages. Both work with
any record, because the policy service can render token ids anew. PPO needs ids and log-probabilities as sampled, and
raises an error without them.
"""
