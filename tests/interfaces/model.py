"""A scripted model on loopback, in the forms of Anthropic's, OpenAI's and Google's interfaces.

It plays a list of actions, one for each request of an agent's main loop. An action is a text, or a
function that gets the request and returns a text or `(tool, arguments)`. `SHELL` is the shell tool of the
host, whatever its name.
"""

import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


# The name of the shell tool in an action, and the tools of the hosts with the member for the command.
SHELL = "shell"
SHELL_TOOLS = {"Bash": "command", "exec_command": "cmd", "run_shell_command": "command"}

# A host that sends more requests loops.
REQUESTS_MAX = 40


def token_in(request):
    """The token of the last claim in a request."""
    found = re.findall(r'\\*"token\\*":\s*\\*"(\d+-[0-9a-f]+)', json.dumps(request))
    return found[-1] if found else ""


class Full(tuple):
    """An action `(tool, arguments)` whose answer says that the context of the agent is full."""


def tokens_of(answer):
    """How many tokens a request is said to have had."""
    # More than the host compacts at, and less than it refuses.
    return 170_000 if isinstance(answer, Full) else 100


class Refusal:
    """An answer with an error status."""

    def __init__(self, status, body, headers=()):
        self.status, self.body, self.headers = status, json.dumps(body).encode(), dict(headers)

    def reply(self, handler):
        handler.send_response(self.status)
        headers = {"content-type": "application/json", "content-length": str(len(self.body))}
        for name, value in {**headers, **self.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(self.body)


class ScriptedModel:
    def __init__(self, actions, transcript):
        self.actions, self.transcript, self.requests = list(actions), transcript, []
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.reply(200, "application/json", b'{"data": [], "models": []}')

            def do_HEAD(self):
                self.reply(200, "application/json", b"")

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                try:
                    request = json.loads(body)
                except ValueError:
                    return self.reply(200, "application/json", b"{}")
                if "/v1/messages/count_tokens" in self.path:
                    return self.reply(200, "application/json", b'{"input_tokens": 100}')
                form = next((form for part, form in FORMS.items() if part in self.path), None)
                if form is None:
                    return self.reply(200, "application/json", b"{}")
                answer = model.answer(self.path, request)
                if isinstance(answer, Refusal):
                    return answer.reply(self)
                form(self, request, answer)

            def reply(self, status, kind, body):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, _path, request):
        """What a request to a path is answered: an action, or a refusal."""
        return self.next(request)

    def next(self, request):
        """The action for a request; requests beside the main loop get a short text."""
        text = json.dumps(request.get("tools", []))
        with self.lock:
            messages = request.get("messages") or request.get("input") or request.get("contents") or []
            is_compaction = "detailed summary" in json.dumps(messages[-1:])
            is_main = "ledger_claim" in text and not is_compaction
            self.requests.append(request)
            if not is_main:
                answer = "<summary>The plan is in the ledger.</summary>"
            elif self.actions:
                action = self.actions.pop(0)
                answer = action(request) if callable(action) else action
            else:
                answer = "There is nothing left to do."
            self.transcript.write(json.dumps({
                "main": is_main, "last": messages[-1:], "answer": answer,
            }) + "\n")
            self.transcript.flush()
            return answer

    def run(self, words, seconds=180, **options):
        """Runs a host to its end. One that loops, or that does not end, is killed and fails the test."""
        host = subprocess.Popen(words, **options)
        self.end(host, seconds)
        return host

    def end(self, host, seconds=180):
        """Waits until a host ends."""
        until = time.monotonic() + seconds
        while host.poll() is None:
            if len(self.requests) > REQUESTS_MAX or time.monotonic() > until:
                host.kill()
                host.wait()
                sys.exit(f"the host did not end: {len(self.requests)} requests to its model")
            time.sleep(0.05)

    def saw(self, words):
        """Whether a request contained these words."""
        return any(words in json.dumps(request) for request in self.requests)


def shell_tool(names, answer):
    """The action with the name and the member of the host's shell tool."""
    if isinstance(answer, str) or answer[0] != SHELL:
        return answer
    tool = next(name for name in names if name in SHELL_TOOLS)
    return type(answer)((tool, {SHELL_TOOLS[tool]: answer[1]["command"]}))


def anthropic(handler, request, answer):
    answer = shell_tool([tool.get("name") for tool in request.get("tools", [])], answer)
    if isinstance(answer, str):
        block = {"type": "text", "text": answer}
        delta = {"type": "text_delta", "text": answer}
        start, stop = {"type": "text", "text": ""}, "end_turn"
    else:
        tool, arguments = answer
        name = f"mcp__ledger__{tool}" if tool.startswith("ledger_") else tool
        block = {"type": "tool_use", "id": f"toolu_{id(answer):x}", "name": name, "input": arguments}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        start, stop = {**block, "input": {}}, "tool_use"
    message = {
        "id": f"msg_{id(answer):x}", "type": "message", "role": "assistant",
        "model": request.get("model", "scripted"), "content": [block], "stop_reason": stop,
        "stop_sequence": None, "usage": {"input_tokens": tokens_of(answer), "output_tokens": 10},
    }
    if not request.get("stream"):
        return handler.reply(200, "application/json", json.dumps(message).encode())
    events = [
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": start}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {
            "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10},
        }),
        ("message_stop", {}),
    ]
    stream(handler, events)


def google(handler, request, answer):
    lists = [tools.get("functionDeclarations", []) for tools in request.get("tools", [])]
    names = [tool["name"] for tools in lists for tool in tools]
    answer = shell_tool(names, answer)
    if isinstance(answer, str):
        part = {"text": answer}
    else:
        tool, arguments = answer
        name = next((name for name in names if name.endswith(tool)), tool)
        part = {"functionCall": {"name": name, "args": arguments}}
    reply = {
        "candidates": [{
            "index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [part]},
        }],
        "usageMetadata": {
            "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110,
        },
    }
    if "streamGenerateContent" not in handler.path:
        return handler.reply(200, "application/json", json.dumps(reply).encode())
    handler.reply(200, "text/event-stream", f"data: {json.dumps(reply)}\n\n".encode())


def openai(handler, request, answer):
    answer = shell_tool([tool.get("name") for tool in request.get("tools", [])], answer)
    if isinstance(answer, str):
        item = {
            "type": "message", "role": "assistant", "id": f"msg_{id(answer):x}",
            "content": [{"type": "output_text", "text": answer, "annotations": []}],
        }
    else:
        tool, arguments = answer
        item = {
            "type": "function_call", "id": f"fc_{id(answer):x}", "call_id": f"call_{id(answer):x}",
            "arguments": json.dumps(arguments), **tool_name(request, tool),
        }
    response = {
        "id": f"resp_{id(answer):x}", "object": "response", "status": "completed", "output": [item],
        "usage": {
            "input_tokens": tokens_of(answer), "output_tokens": 10, "total_tokens": tokens_of(answer) + 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
    stream(handler, [
        ("response.created", {"response": {**response, "status": "in_progress", "output": []}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    ])


def tool_name(request, tool):
    """The name of a tool, and its namespace if the host groups tools by their server."""
    for listed in request.get("tools", []):
        if listed.get("type") == "namespace":
            if any(inner.get("name") == tool for inner in listed.get("tools", [])):
                return {"name": tool, "namespace": listed["name"]}
        elif str(listed.get("name", "")).endswith(tool):
            return {"name": listed["name"]}
    return {"name": tool}


def stream(handler, events):
    body = "".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events
    ).encode()
    handler.reply(200, "text/event-stream", body)


# How the interfaces answer, by a part of their paths.
FORMS = {"/v1/messages": anthropic, "/v1/responses": openai, "enerateContent": google}
