"""A loop that does the steps of a plan with the OpenAI SDK (`pip install openai`):

    ledger plan propose plan.yaml
    OPENAI_API_KEY=... OPENAI_MODEL=... python3 examples/recipes/openai_loop.py

It survives a crash at any point: the receipt of a step and the claim of the next one are one commit, and
a new loop takes the step of a dead one back. PRICE_IN and PRICE_OUT are the prices of a
million tokens. Without tools the model only writes texts: a step that changes files
needs an agent, such as the recipe for Codex.
"""

import os

import openai

from step_loop import Failed, prompt_of, run_steps

MODEL = os.environ["OPENAI_MODEL"]
# The loop decides when to try again, so that the time is on record.
client = openai.OpenAI(max_retries=0)


def work(task):
    """Does a step. Returns its output, its tokens in and out, and the id of the answer."""
    try:
        answer = client.responses.create(model=MODEL, input=prompt_of(task))
    except openai.APIStatusError as error:
        raise failure(error) from error
    except openai.APIConnectionError as error:
        raise Failed("transient", f"no connection: {error}", retry_after=30) from error
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    if answer.status != "completed":
        reason = getattr(answer.incomplete_details, "reason", None) or answer.status
        raise Failed("deterministic", f"the answer is not complete: {reason}", tokens=used)
    return answer.output_text, used, answer.id


def failure(error):
    """The failure that a status of the API means."""
    text = f"status {error.status_code}: {error.message}"
    wait = error.response.headers.get("retry-after")
    if error.code == "insufficient_quota":
        # Only a person can buy more: the budget of the account is used up.
        return Failed("budget-exhausted", text)
    if error.status_code == 429:
        return Failed("transient", text, retry_after=float(wait or 60))
    if error.status_code in (408, 409) or error.status_code >= 500:
        return Failed("transient", text, retry_after=float(wait or 60))
    # A key that is not valid, a request that is too long: a retry fails, too.
    return Failed("deterministic", text)


if __name__ == "__main__":
    run_steps(work)
