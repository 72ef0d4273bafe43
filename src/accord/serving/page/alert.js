// Where the page says what went wrong; after a wait that the server asked for, it tries again.

const MOST_RETRIES = 3;
const by = (id) => document.getElementById(id);

export class Alert {
  #timer = null;
  #retries = 0;

  /** `retry` is called by the button, and after the wait that a busy server asks for. */
  constructor(retry) {
    this.retry = retry;
    by("again").addEventListener("click", () => this.#again(0));
    window.addEventListener("online", () => {
      if (this.problem && !this.problem.status) this.#again(0);
    });
  }

  show(problem) {
    this.clear();
    this.problem = problem;
    by("alert-title").textContent = problem.title;
    by("alert-advice").textContent = problem.advice;
    by("alert-server").textContent = problem.server ? `The server says: ${problem.server}` : "";
    by("again").hidden = problem.final;
    by("alert").hidden = false;
    by("alert").scrollIntoView({ block: "nearest" });
    const waits = problem.wait !== null && problem.wait !== undefined;
    if (waits && this.#retries < MOST_RETRIES) this.#countdown(problem.wait);
  }

  clear() {
    clearInterval(this.#timer);
    this.problem = null;
    by("alert").hidden = true;
    by("again").hidden = false;
    by("again").textContent = "Try again";
  }

  /** All went well, or the user asked for something else: waiting starts afresh. */
  reset() {
    this.#retries = 0;
    this.clear();
  }

  #countdown(seconds) {
    let left = seconds;
    by("alert-advice").textContent +=
      ` It asks to wait ${seconds} s; the page tries again by itself.`;
    const tick = () => {
      if (left <= 0) return this.#again(this.#retries + 1);
      by("again").textContent = `Try again now (${left} s)`;
      left -= 1;
    };
    tick();
    this.#timer = setInterval(tick, 1000);
  }

  #again(retries) {
    this.#retries = retries;
    this.clear();
    this.retry();
  }
}
