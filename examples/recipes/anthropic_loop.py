"""A loop that does the steps of a plan with the Anthropic SDK (`pip install anthropic`):

    ledger plan propose plan.yaml
    ANTHROPIC_API_KEY=... ANTHROPIC_MODEL=... python3 examples/recipes/anthropic_loop.py

It survives a crash at any point: the receipt of a step and the claim of the next one are one commit, and
a new loop takes the step of a dead one back. PRICE_IN and PRICE_OUT are the prices of a
million tokens. Without tools the model only writes texts: a step that changes files
needs an agent, such as the recipe for Claude Code.
"""

import os

import anthropic

from step_loop import Failed, prompt_of, run_steps

MODEL = os.environ["ANTHROPIC_MODEL"]
# The loop decides when to try again, so that the time is on record.
client = anthropic.Anthropic(max_retries=0)


def work(task):
    """Does a step. Returns its output, its tokens in and out, and the id of the answer."""
    try:
        answer = client.messages.create(
            model=MODEL,
            max_tokens=8192,
            messages=[{"role": "user", "content": prompt_of(task)}],
        )
    except anthropic.APIStatusError as error:
        raise failure(error) from error
    except anthropic.APIConnectionError as error:
        raise Failed("transient", f"no connection: {error}", retry_after=30) from error
    usage = answer.usage
    used = (
        usage.input_tokens
        + (usage.cache_creation_input_tokens or 0)
        + (usage.cache_read_input_tokens or 0),
        usage.output_tokens,
    )
    text = "".join(block.text for block in answer.content if block.type == "text")
    if answer.stop_reason == "max_tokens":
        raise Failed("deterministic", "the answer was cut at max_tokens", tokens=used)
    if answer.stop_reason == "refusal":
        raise Failed("deterministic", f"the model refused: {text}", tokens=used)
    return text, used, answer.id


def failure(error):
    """The failure that a status of the API means."""
    text = f"status {error.status_code}: {error.message}"
    wait = error.response.headers.get("retry-after")
    if error.status_code == 429:
        return Failed("transient", text, retry_after=float(wait or 60))
    if error.status_code in (408, 409) or error.status_code >= 500:  # 529: overloaded
        return Failed("transient", text, retry_after=float(wait or 60))
    # A key that is not valid, a request that is too long: a retry fails, too.
    return Failed("deterministic", text)


if __name__ == "__main__":
    run_steps(work)
