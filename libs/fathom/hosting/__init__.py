"""Hosting of services: opens what a service needs, clients included, and serves it over the transports."""
