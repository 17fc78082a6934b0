"""Gateway: the HTTP API and web page. REST and server-sent events over the services' gRPC.

It is stateless: a run outlives the stream, and every route can be answered by any replica. It never computes, never
calls a model and never reads an object that the caller's run or sheet does not name.
"""
