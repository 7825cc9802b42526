"""An MCP server that gives the record of a JSON file by the text of its question."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

server = MCPServer("records")
RECORDS: dict[str, Any] = {}


@server.tool(structured_output=False)
def ask(query: str) -> str:
    record: dict[str, Any] = RECORDS[query]
    return json.dumps(record)


if __name__ == "__main__":
    RECORDS.update(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    server.run("stdio")
