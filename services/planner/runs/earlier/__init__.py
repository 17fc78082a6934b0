"""Earlier turns of whoever asks: what they found, and which of them a run is reminded of."""
