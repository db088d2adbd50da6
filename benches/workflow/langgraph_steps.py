"""Steps of a LangGraph loop with the SQLite checkpointer. Prints the seconds."""

import sqlite3
import sys
import time
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    number: int
    output: str


def main(path, steps):
    def step(state):
        return {"number": state["number"] + 1, "output": "x" * 200}

    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: "step" if state["number"] < steps else END
    )
    connection = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(connection)
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": steps + 10}
    started = time.perf_counter()
    done = compiled.invoke({"number": 0, "output": ""}, config, durability="sync")
    took = time.perf_counter() - started
    assert done["number"] == steps, done
    print(took)


main(sys.argv[1], int(sys.argv[2]))
