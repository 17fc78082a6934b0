"""Operations on the course of one series, or on two of them together."""
