"""A worker of the Claude Agent SDK: `pip install plan-ledger claude-agent-sdk`, then `claude_agent.py RUN`.

Each step is one conversation. Its transcript goes to the folder `sessions`, its text and session become the output, and its
cost counts in the budget of the run. A limit of the provider is a transient failure: the step is tried again later.
"""

from __future__ import annotations

import asyncio
import json
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from plan_ledger import AsyncLedger, AsyncTask, Transient
from session_store import FileSessionStore


def prompt(task: AsyncTask) -> str:
    """What the agent must know: its step, its inputs, and why the last attempt failed."""
    about = {"step": task.step, "inputs": task.inputs, "done": task.hand_off["done"], "last_failure": task.last_failure}
    return f"Do this step of the plan {task.hand_off['plan']['title']!r}, and nothing else:\n{json.dumps(about, indent=1)}"


async def perform(task: AsyncTask) -> None:
    options = ClaudeAgentOptions(
        session_store=FileSessionStore("sessions"),
        session_store_flush="eager",
        allowed_tools=list(task.step.get("tools") or []),
        permission_mode="dontAsk",
        setting_sources=[],
    )
    result = None
    async for message in query(prompt=prompt(task), options=options):
        # The lease may be lost while the agent works: its work no longer counts.
        task.check()
        if isinstance(message, ResultMessage):
            result = message
    if result is None or result.is_error:
        raise Transient(f"the agent ended without a result: {result and result.result}")
    usage = result.usage or {}
    tokens = sum(usage.get(word) or 0 for word in ("input_tokens", "output_tokens"))
    task.done({"text": result.result, "session": result.session_id}, money=result.total_cost_usd or 0.0, tokens=tokens)


async def main() -> None:
    async with AsyncLedger() as ledger:
        async for task in ledger.work(sys.argv[1]):
            async with task:
                await perform(task)


asyncio.run(main())
