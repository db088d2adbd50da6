"""The part of the loops that does not depend on a provider: claim, work, report, claim."""

import json
import math
import os
import subprocess
import sys
import traceback


class Failed(Exception):
    """A step that failed, with the class of its failure."""

    def __init__(self, kind, message, retry_after=None, tokens=(0, 0)):
        super().__init__(message)
        self.kind, self.retry_after, self.tokens = kind, retry_after, tokens


def ledger(*words, output=""):
    """Runs one command, and returns its exit code and its JSON lines."""
    command = ["ledger", *words, "--json"]
    done = subprocess.run(command, input=output, stdout=subprocess.PIPE, text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def prompt_of(task):
    """The task as a text for a model: what to do, and what went wrong before."""
    keys = ["step", "inputs", "plan", "last_failure", "failed_criteria", "previous_attempts"]
    return (
        "Do the step of a plan that follows as JSON. Answer with the output of the step and nothing "
        "else: JSON if the step asks for it. previous_attempts has the errors of earlier attempts: "
        "avoid them.\n" + json.dumps({key: task.get(key) for key in keys})
    )


def money_of(tokens):
    """The price of tokens in and out, as an amount."""
    prices = (float(os.environ.get("PRICE_IN", 0)), float(os.environ.get("PRICE_OUT", 0)))
    return f"{sum(map(lambda count, price: count * price, tokens, prices)) / 1e6:.6f}"


def report_of(task, work):
    """Does a step, and returns the options of its receipt, and its output."""
    try:
        output, tokens, answer = work(task)
    except Failed as failed:
        words = ["--failed", failed.kind, "--message", str(failed)]
        if failed.retry_after is not None:
            words += ["--retry-after", str(math.ceil(failed.retry_after))]
        return [*words, *costs(failed.tokens)], ""
    except Exception as problem:  # a mistake in the loop, or in the answer
        traceback.print_exc()
        return ["--failed", "unknown", "--message", f"{type(problem).__name__}: {problem}"], ""
    print(f"step {task['step']['id']}: answer {answer}", file=sys.stderr)
    return ["--output", "-", *costs(tokens)], output


def costs(tokens):
    return ["--cost", money_of(tokens), "--tokens", str(sum(tokens))]


def run_steps(work, worker="loop"):
    """Does steps until there is no more work, and ends with the exit code of the last claim."""
    # The loop is named, so that its step is released at once if it dies.
    claim = ["claim", "--worker", worker, "--wait", "--pid", str(os.getpid())]
    code, lines = ledger(*claim)
    while code == 0:
        task = lines[-1]
        report, output = report_of(task, work)
        words = ["receipt", str(task["token"]), *report, "--next"]
        code, lines = ledger(*words, output=output)
        if code == 3:  # no step is ready now, as after a limit
            code, lines = ledger(*claim)
    if code == 1:
        print(f"the run is {lines[-1]['status']}")
    else:
        sys.exit(code)
