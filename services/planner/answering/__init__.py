"""Post-processing of the model's final text: parsing, verification, figures, citations."""
