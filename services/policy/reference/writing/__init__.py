"""What answers of the reference policy show that no calculation gives: the overview of the data."""
