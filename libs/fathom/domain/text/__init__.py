"""Facts about written English and Chinese that several rooms need: numerals, months, scripts, stop words."""
