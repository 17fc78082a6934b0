"""What answers of the reference policy show beside their lines: the overview of data, tables and charts of results."""
