"""Company statements fetched from a vendor into tables of datafetch's own (`fathom data fetch`)."""
