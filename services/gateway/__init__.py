"""Gateway: the web door. REST and server-sent events over the services' gRPC, and the page.

It holds no state of its own: a run outlives the stream, and every route can be answered by any replica.
It never computes, never calls a model and never reads an object that the caller's run or sheet does not name.
"""
