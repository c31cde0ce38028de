"""``keqa serve``: the program behind an OpenAI-compatible endpoint and as tools of an MCP server."""
