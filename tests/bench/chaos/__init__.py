"""Faults of every kind beside training and people's questions: what is lost, made twice, failed or spoilt by them."""
