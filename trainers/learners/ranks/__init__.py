"""Ranks of a learner: worker groups, sharding of parameters (FSDP2) and of sequences (Ulysses)."""
