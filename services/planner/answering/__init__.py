"""From the model's last words to the answer that is shown."""
