"""A LangGraph graph as a worker: `pip install plan-ledger langgraph`, then `langgraph_worker.py RUN`.

The ledger decides which step is next and what happens after a failure; the graph decides how one step is done. Its state is
kept for one attempt only. A checkpointer of LangGraph needs a store of its own beside the ledger: use one of LangGraph's.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from plan_ledger import Ledger


class Work(TypedDict, total=False):
    task: str
    draft: str
    answer: str
    tokens: int


def ask(text: str) -> tuple[str, int]:
    """One message to the model."""
    body = {"model": os.environ.get("MODEL", "claude-sonnet-4-5"), "max_tokens": 1024,
            "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"],
         "anthropic-version": "2023-06-01"},
    )
    # An error of the network is an OSError: a transient failure, after which the step is tried again.
    with urllib.request.urlopen(request, timeout=300) as response:
        message = json.load(response)
    text = "".join(block.get("text", "") for block in message["content"])
    return text, message["usage"]["input_tokens"] + message["usage"]["output_tokens"]


def draft(work: Work) -> dict[str, Any]:
    text, tokens = ask(f"Do this step of a plan:\n{work['task']}")
    return {"draft": text, "tokens": tokens}


def review(work: Work) -> dict[str, Any]:
    text, tokens = ask(f"Improve this answer to the step below.\n{work['draft']}\n\nStep: {work['task']}")
    return {"answer": text, "tokens": work["tokens"] + tokens}


graph = StateGraph(Work)
graph.add_node("draft", draft)
graph.add_node("review", review)
graph.add_edge(START, "draft")
graph.add_edge("draft", "review")
graph.add_edge("review", END)
compiled = graph.compile()

with Ledger() as ledger:
    for task in ledger.work(sys.argv[1]):
        with task:
            about = {"step": task.step, "inputs": task.inputs, "last_failure": task.last_failure}
            work = compiled.invoke({"task": json.dumps(about)})
            task.done(work["answer"], tokens=work["tokens"])
