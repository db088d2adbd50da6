"""Runs a plan with the official Python client."""

import asyncio
import json
import os

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(
        command=os.environ["LEDGER"], args=["mcp", "--role", "operator"], env=dict(os.environ)
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        await client.initialize()

        async def call(name, **arguments):
            result = await client.call_tool(name, arguments)
            text = result.content[0].text
            print(f"{name} {json.dumps(arguments)}\n  {text[:400]}")
            return result, text

        tools = (await client.list_tools()).tools
        assert len(tools) == 9, tools
        assert len((await client.list_prompts()).prompts) == 3
        for step in ["build", "test", "publish"]:
            claimed = json.loads((await call("ledger_claim"))[1])
            assert claimed["got"] and claimed["step"]["id"] == step, claimed
            report = {"token": claimed["token"], "outcome": "succeeded", "output": {"did": step}}
            reported = json.loads((await call("ledger_report", **report))[1])
            if step == "publish":
                assert reported["status"] == "reported", reported
                await call("ledger_answer", step=step, answer="pass", by="ana")
            else:
                assert reported["status"] == "accepted", reported
        over = json.loads((await call("ledger_claim"))[1])
        assert over["got"] is False and over["status"] == "done", over


asyncio.run(main())
