"""Stored episodes as training data (row T01): what production and rollouts have recorded, for SFT, DPO and PPO.

SFT takes successful episodes, DPO pairs of a better and a worse continuation of the same words; both may be made of
any record, since their token ids can be rendered anew by the policy service. PPO wants ids and log-probabilities as
they were sampled, and is refused without.
"""
