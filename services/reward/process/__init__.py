"""The implicit process reward model behind ScoreProcess and UpdateModel; torch is imported on first use."""
