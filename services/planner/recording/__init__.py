"""Recording and replay of the calls that an episode makes: of services, models and foreign tools."""
