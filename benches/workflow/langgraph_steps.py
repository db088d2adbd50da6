"""Steps of LangGraph loops, one for each client, with the SQLite checkpointer. Prints the seconds."""

import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    number: int
    output: str


def main(path, steps, clients):
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

    def work(client):
        config = {"configurable": {"thread_id": str(client)}, "recursion_limit": steps + 10}
        done = compiled.invoke({"number": 0, "output": ""}, config, durability="sync")
        assert done["number"] == steps, done

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))
    print(time.perf_counter() - started)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
