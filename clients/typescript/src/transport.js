/** Connections: the socket of a ledger, or HTTP. */

import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { createConnection } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { LeaseLost, Rejected } from "./errors.js";
import { socketAddress } from "./place.js";

/** @import {Socket} from "node:net" */

/**
 * The answer to a request: exit code, lines, and messages for people. `acked_by` is there only if the log is in an object
 * store: `store` if the store has everything that was recorded when the answer was made, `local` if it may lack some of it.
 * @typedef {{code: number, lines: Record<string, any>[], said: string[], acked_by?: "store" | "local"}} Answer
 */

/**
 * Sends requests, also several at once.
 * @typedef {{exchange(message: string, timeout: number): Promise<Answer>, close(): void}} Transport
 */

/** The connection ended before the answer: the request may have been executed. */
export class Lost extends Error {}

/** No server accepts connections. */
export class NoServer extends Error {}

/** Another server holds the ledger: its address, which is empty if the answer names none. */
class Moved extends Error {}

/** How long a request is repeated if nothing else is said, in milliseconds. */
export const PATIENCE = 60_000;

/** Kinds of errors after which the same request may succeed, at this server or at the next one. */
export const RETRIED = new Set([
  "busy",
  "locked",
  "no_owner",
  "outcome_unknown",
  "poisoned",
  "fenced",
  "disk_full",
  "io",
]);

/**
 * The first line of a type.
 * @param {Answer} answer
 * @param {string} word
 * @returns {Record<string, any> | undefined}
 */
export function lineOf(answer, word) {
  return answer.lines.find((line) => line.type === word);
}

/**
 * The error for an `error` line.
 * @param {Record<string, any>} line
 */
export function errorOf(line) {
  const kind = line.rejection === "stale_token" ? LeaseLost : Rejected;
  const hint = line.hint ? `\nhint: ${line.hint}` : "";
  return new kind(`${line.message ?? ""}${hint}`, line);
}

/**
 * @param {string} text
 * @returns {Answer}
 */
function decode(text) {
  try {
    const answer = JSON.parse(text);
    if (typeof answer.code !== "number" || !Array.isArray(answer.lines)) throw new Error("members are missing");
    const { code, lines, said = [], acked_by } = answer;
    return acked_by === undefined ? { code, lines, said } : { code, lines, said, acked_by };
  } catch (error) {
    throw new Lost(`the answer cannot be read: ${error}`);
  }
}

/** Connections to the socket in a ledger's folder; idle ones are kept. */
export class SocketTransport {
  #folder;
  /** @type {Socket[]} */
  #idle = [];

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder;
  }

  /** @returns {Promise<Socket>} */
  #connect() {
    return new Promise((connected, failed) => {
      /** @param {unknown} error */
      const none = (error) => failed(new NoServer(`no server at ${this.#folder}: ${error}`));
      let address;
      try {
        address = socketAddress(this.#folder);
      } catch (error) {
        none(error);
        return;
      }
      const { path, close } = address;
      const socket = createConnection({ path });
      /** @param {unknown} error */
      const fail = (error) => {
        socket.destroy();
        close();
        none(error);
      };
      socket.once("error", fail);
      socket.once("connect", () => {
        close();
        socket.off("error", fail);
        connected(socket);
      });
    });
  }

  /**
   * @param {string} message
   * @param {number} timeout
   * @returns {Promise<Answer>}
   */
  async exchange(message, timeout) {
    let socket = this.#idle.pop();
    while (socket?.destroyed) socket = this.#idle.pop();
    socket ??= await this.#connect();
    socket.ref();
    try {
      const answer = decode(await line(socket, message, timeout));
      socket.unref();
      this.#idle.push(socket);
      return answer;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  close() {
    for (const socket of this.#idle.splice(0)) socket.destroy();
  }
}

/**
 * Writes a request and reads one message.
 * @param {Socket} socket
 * @param {string} message
 * @param {number} timeout
 * @returns {Promise<string>}
 */
function line(socket, message, timeout) {
  return new Promise((done, failed) => {
    /** @type {Buffer[]} */
    const parts = [];
    /** @param {Error} error */
    const fail = (error) => finish(() => failed(new Lost(`the connection ended: ${error.message}`)));
    const end = () => fail(new Error("before the answer"));
    /** @param {Buffer} part */
    const take = (part) => {
      parts.push(part);
      // The server sends nothing after its answer.
      if (part.at(-1) === 10) finish(() => done(Buffer.concat(parts).toString("utf8")));
    };
    const timer = setTimeout(() => fail(new Error("no answer in time")), timeout);
    /** @param {() => void} then */
    const finish = (then) => {
      clearTimeout(timer);
      socket.off("data", take).off("error", fail).off("end", end).off("close", end);
      // An error of an idle connection is found when it is used again.
      if (socket.listenerCount("error") === 0) socket.on("error", () => {});
      then();
    };
    socket.on("data", take).on("error", fail).on("end", end).on("close", end);
    socket.write(message + "\n");
  });
}

/**
 * Scheme, host and port of an address; undefined if it is none.
 * @param {string} url
 */
function originOf(url) {
  try {
    return new URL(url).origin;
  } catch {
    return undefined;
  }
}

/** Requests to one server over HTTP; idle connections are kept. */
class Server {
  #url;
  #token;
  #agent;
  #request;

  /**
   * @param {string} url
   * @param {string | undefined} token
   */
  constructor(url, token) {
    this.#url = url.replace(/\/+$/, "");
    this.origin = originOf(url);
    if (this.origin === undefined || !/^https?:/.test(url)) throw new TypeError(`not the address of a server: ${url}`);
    this.#token = token;
    const isSecure = url.startsWith("https:");
    this.#agent = isSecure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
    this.#request = isSecure ? httpsRequest : httpRequest;
  }

  get url() {
    return this.#url;
  }

  /**
   * Sends a request and reads its answer. Throws `Lost`, `NoServer` or `Moved`.
   * @param {string} path
   * @param {string | undefined} body
   * @param {number} timeout
   * @returns {Promise<Answer>}
   */
  ask(path, body, timeout) {
    /** @type {Record<string, string | number>} */
    const headers = { Accept: "application/json" };
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      headers["Content-Length"] = Buffer.byteLength(body);
    }
    const method = body === undefined ? "GET" : "POST";
    return new Promise((done, failed) => {
      const request = this.#request(this.#url + path, { method, headers, agent: this.#agent });
      const timer = setTimeout(() => request.destroy(new Error("no answer in time")), timeout);
      /** @param {any} error */
      const fail = (error) => {
        clearTimeout(timer);
        const isRefused = error.code === "ECONNREFUSED";
        failed(isRefused ? new NoServer(`no server at ${this.#url}`) : new Lost(`the connection ended: ${error.message}`));
      };
      request.on("error", fail);
      request.on("response", (response) => {
        /** @type {Buffer[]} */
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("error", fail);
        response.on("close", () => {
          clearTimeout(timer);
          if (!response.complete) return fail(new Error("inside the answer"));
          const status = response.statusCode ?? 0;
          if (status >= 300 && status < 400) return failed(new Moved(response.headers.location ?? ""));
          try {
            done(readResponse(status, Buffer.concat(parts).toString("utf8")));
          } catch (error) {
            failed(error);
          }
        });
      });
      request.end(body);
    });
  }

  close() {
    this.#agent.destroy();
  }
}

/** Servers over HTTP, one of which holds the ledger. The token and the requests go to these addresses alone. */
export class HttpTransport {
  /** @type {Server[]} */
  #servers;
  /** The server that is asked next. */
  #next = 0;

  /**
   * @param {string[]} urls
   * @param {string | undefined} token
   */
  constructor(urls, token) {
    this.#servers = urls.map((url) => new Server(url, token));
    if (this.#servers.length === 0) throw new TypeError("there is no address of a server");
  }

  /**
   * Asks the next server, and the one that it names. After a failure another one is next.
   * @param {string} path
   * @param {string | undefined} body
   * @param {number} timeout
   * @returns {Promise<Answer>}
   */
  async #ask(path, body, timeout) {
    // A machine that is gone answers nothing: another one may hold the ledger by then.
    const wait = this.#servers.length > 1 ? Math.min(timeout, 10_000) : timeout;
    for (let left = this.#servers.length; left >= 0; left -= 1) {
      const server = /** @type {Server} */ (this.#servers[this.#next]);
      const others = (this.#next + 1) % this.#servers.length;
      try {
        const answer = await server.ask(path, body, wait);
        if (RETRIED.has(lineOf(answer, "error")?.kind)) this.#next = others;
        return answer;
      } catch (error) {
        if (error instanceof Moved) {
          const origin = originOf(error.message);
          const found = this.#servers.findIndex((each) => each.origin === origin);
          if (origin !== undefined && found >= 0) {
            this.#next = found;
            continue;
          }
          this.#next = others;
          throw new Lost(
            `${server.url} says that ${error.message} holds the ledger, which is not in the list of addresses, so it ` +
              "gets neither the token nor the request",
          );
        }
        if (error instanceof Lost || error instanceof NoServer) this.#next = others;
        throw error;
      }
    }
    throw new Lost("none of the servers holds the ledger");
  }

  /**
   * @param {string} message
   * @param {number} timeout
   */
  exchange(message, timeout) {
    return this.#ask("/v1/requests", message, timeout);
  }

  /**
   * A view by its path, such as `runs`, `night`, `state`; it may be asked for again.
   * @param {string[]} path
   * @returns {Promise<Answer>}
   */
  async view(path) {
    const url = "/v1/" + path.map(encodeURIComponent).join("/");
    const several = this.#servers.length > 1;
    const deadline = performance.now() + (several ? PATIENCE : 0);
    for (let asked = 1; ; asked += 1) {
      const mayRepeat = asked < 3 || performance.now() < deadline;
      try {
        const answer = await this.#ask(url, undefined, 60_000);
        const error = lineOf(answer, "error");
        if (!error) return answer;
        if (!several || !mayRepeat || !RETRIED.has(error.kind)) throw errorOf(error);
      } catch (error) {
        const isRepeated = error instanceof Lost || (several && error instanceof NoServer);
        if (!mayRepeat || !isRepeated) throw error;
      }
      if (asked >= 3) await sleep(200);
    }
  }

  close() {
    for (const server of this.#servers) server.close();
  }
}

/**
 * The answer in a response; a problem becomes an `error` line, as on the socket.
 * @param {number} status
 * @param {string} text
 * @returns {Answer}
 */
function readResponse(status, text) {
  if (status === 200 || status === 201) return decode(text);
  let problem;
  try {
    problem = JSON.parse(text);
  } catch {
    problem = {};
  }
  if (typeof problem?.kind !== "string") {
    if (status >= 500 || status === 408 || status === 429) throw new Lost(`HTTP status ${status}`);
    throw new Rejected(`HTTP status ${status}: ${text.slice(0, 500)}`);
  }
  const line = {
    type: "error",
    kind: problem.kind,
    rejection: problem.rejection ?? null,
    message: problem.detail ?? problem.title ?? "",
    hint: problem.hint ?? null,
    exit_code: problem.exit_code ?? 7,
  };
  return { code: line.exit_code, lines: [line], said: [line.message] };
}
