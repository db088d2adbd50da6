"""A program of a user with a client that `openapi-python-client` generates from `format/http.openapi.json`.

It starts a run, answers a question, works on the step, and reads typed states. `clients/run generated` generates the
client as the package `generated_client`, checks the types of this file, and runs it.

    generated.py ADDRESS TOKEN
"""

from __future__ import annotations

import sys

from generated_client import AuthenticatedClient
from generated_client.api.claims import claim, receipt
from generated_client.api.questions import answer, list_questions
from generated_client.api.runs import get_state, propose
from generated_client.models.answer_body import AnswerBody
from generated_client.models.claim_body import ClaimBody
from generated_client.models.get_state_answer import GetStateAnswer
from generated_client.models.list_questions_answer import ListQuestionsAnswer
from generated_client.models.next_line import NextLine
from generated_client.models.outcome_word import OutcomeWord
from generated_client.models.waiting_item_question import WaitingItemQuestion
from generated_client.models.problem import Problem
from generated_client.models.propose_body import ProposeBody
from generated_client.models.receipt_body import ReceiptBody
from generated_client.models.receipt_file import ReceiptFile
from generated_client.models.receipt_line import ReceiptLine
from generated_client.models.step_state_line import StepStateLine
from generated_client.models.step_status import StepStatus
from generated_client.models.task_line import TaskLine

RUN = "generated-python"
PLAN = {"title": "Release", "steps": [{"id": "publish", "gate": {"question": "Publish now?"}}]}


def statuses(client: AuthenticatedClient) -> dict[str, StepStatus]:
    """The status of each step."""
    state = get_state.sync(RUN, client=client)
    assert isinstance(state, GetStateAnswer), state
    return {line.id: line.status for line in state.lines if isinstance(line, StepStateLine)}


def main(address: str, token: str) -> None:
    client = AuthenticatedClient(base_url=address, token=token)
    started = propose.sync(client=client, body=ProposeBody.from_dict({"run": RUN, "plan": PLAN}))
    assert started is not None and not isinstance(started, Problem), started
    before = statuses(client)["publish"]

    questions = list_questions.sync(RUN, client=client)
    assert isinstance(questions, ListQuestionsAnswer), questions
    items = [line.item for line in questions.lines if isinstance(line, NextLine)]
    numbers = [item.question for item in items if isinstance(item, WaitingItemQuestion)]
    unknown = answer.sync(99, client=client, body=AnswerBody(answer="yes", by="ana"))
    assert isinstance(unknown, Problem) and unknown.status == 404 and unknown.hint is not None, unknown
    answered = answer.sync(numbers[0], client=client, body=AnswerBody(answer="yes", by="ana"))
    assert answered is not None and not isinstance(answered, Problem), answered

    claimed = claim.sync(client=client, body=ClaimBody(run=RUN, worker="generated"))
    assert claimed is not None and not isinstance(claimed, Problem), claimed
    task = next(line for line in claimed.lines if isinstance(line, TaskLine))
    body = ReceiptBody(receipt=ReceiptFile(outcome=OutcomeWord.SUCCEEDED, output={"rows": 3}))
    reported = receipt.sync(task.token, client=client, body=body)
    assert reported is not None and not isinstance(reported, Problem), reported
    done = next(line for line in reported.lines if isinstance(line, ReceiptLine))
    assert (before, statuses(client)["publish"]) == (StepStatus.GATED, StepStatus.ACCEPTED), (before, done)
    print(f"python: {RUN}: {before.value}, then {done.status}")


main(*sys.argv[1:])
