"""MCP both ways: foreign servers' tools in our registry, and our tools as a server."""
