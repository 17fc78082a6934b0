"""Server side of the RPC layer: one servicer and interceptor chain behind gRPC, NATS and in-process transports."""
