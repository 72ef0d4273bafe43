// Questions to the server, and its refusals in plain words.

/** What went wrong and what to do; how long to wait first, or `final` where waiting is no use. */
export class Problem extends Error {
  constructor(title, advice, { status = 0, server = "", wait = null, final = false } = {}) {
    super(title);
    Object.assign(this, { title, advice, status, server, wait, final });
  }
}

const WORDS = {
  400: ["The server could not use this request.", ""],
  403: ["This server asks for an API key.", "Enter a valid key and try again."],
  404: ["The server does not offer this.", "Its version may not fit this page: reload it."],
  408: ["The text arrived too slowly.", "Check your connection and try again."],
  413: ["The text is too long for this server.", "Translate it in smaller parts."],
  429: ["The server is busy.", "Many people are translating right now."],
  500: ["Something went wrong inside the server.", "Trying again may help."],
  503: ["The server is not ready.", "It is starting, or about to stop."],
  504: ["The translation took too long.", "Try a shorter text, or try again later."],
};

/** The JSON that the server answers; a body makes it a POST request, of JSON or of a form. */
export async function ask(path, body = null, signal = null) {
  const options = { signal, headers: { Accept: "application/json" } };
  if (body) {
    const form = body instanceof FormData;
    options.method = "POST";
    if (!form) options.headers["Content-Type"] = "application/json";
    options.body = form ? body : JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (!response.ok) throw await refused(response);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server's answer cannot be read.", "Trying again may help.");
  }
}

function unreachable() {
  return navigator.onLine
    ? new Problem("The server cannot be reached.", "Check that it is running, then try again.")
    : new Problem("You are offline.", "The translation goes on when you are connected again.");
}

async function refused(response) {
  const answer = await response.json().catch(() => ({}));
  const fallback = [`The server refused the request (${response.status}).`, ""];
  const [title, advice] = WORDS[response.status] ?? fallback;
  return new Problem(title, advice, {
    status: response.status,
    server: typeof answer?.error === "string" ? answer.error : "",
    wait: seconds(response.headers.get("Retry-After")),
  });
}

/** Retry-After is a number of seconds or a date. */
function seconds(header) {
  if (!header) return null;
  const number = /^\d+$/u.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(number) ? Math.max(1, Math.ceil(number)) : null;
}
