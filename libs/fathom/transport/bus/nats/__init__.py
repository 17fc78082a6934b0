"""The bus of a cluster: NATS request/reply, JetStream streams and key-value buckets."""
