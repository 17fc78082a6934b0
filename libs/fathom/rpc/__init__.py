"""Serving: one servicer, one chain of interceptors, three transports (gRPC, NATS, in process)."""
