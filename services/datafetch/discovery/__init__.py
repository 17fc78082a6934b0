"""The catalogue as others see it: which series there are, since when and until when, and a search over them."""
