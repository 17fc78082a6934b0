"""MCP client and server: tools of external servers in the registry, and the registry's tools as a server."""
