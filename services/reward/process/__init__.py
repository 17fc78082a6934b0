"""The implicit process reward model behind ScoreProcess and UpdateModel; torch is imported when it is first asked."""
