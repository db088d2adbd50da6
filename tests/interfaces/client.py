"""Runs a plan with the official Python client, and answers a question of another plan in a form."""

import asyncio
import json
import os
import subprocess

from mcp import ClientSession, StdioServerParameters, types
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
                # A client without forms decides nothing for a person.
                refused, text = await call("ledger_answer", step=step, answer="pass", by="ana")
                assert refused.isError and "agent_session" in text, text
                accept = [os.environ["LEDGER"], "accept", step, "--by", "ana"]
                subprocess.run(accept, check=True)
            else:
                assert reported["status"] == "accepted", reported
        over = json.loads((await call("ledger_claim"))[1])
        assert over["got"] is False and over["status"] == "done", over


async def answer_in_a_form():
    with open("gated.yaml", "w") as file:
        file.write("steps: [{id: deploy, gate: {question: Deploy now?}}]\n")
    subprocess.run([os.environ["LEDGER"], "plan", "propose", "gated.yaml"], check=True)
    server = StdioServerParameters(
        command=os.environ["LEDGER"],
        args=["mcp", "--role", "operator", "--run", "gated", "--by", "ana"],
        env=dict(os.environ),
    )
    forms = []

    async def fill(context, form):
        print(f"form: {form.message}")
        forms.append(form)
        return types.ElicitResult(action="accept", content={"answer": "yes", "note": "looked at"})

    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write, elicitation_callback=fill) as client,
    ):
        await client.initialize()
        claimed = await client.call_tool("ledger_claim", {})
        print(f"ledger_claim\n  {claimed.content[0].text[:400]}")
        assert json.loads(claimed.content[0].text)["step"]["id"] == "deploy", claimed
    assert len(forms) == 1 and "Deploy now?" in forms[0].message, forms
    approvals = subprocess.run(
        [os.environ["LEDGER"], "questions", "gated", "--decided"], check=True, capture_output=True, text=True
    ).stdout
    assert "answered yes by ana: looked at" in approvals, approvals


asyncio.run(main())
asyncio.run(answer_in_a_form())
