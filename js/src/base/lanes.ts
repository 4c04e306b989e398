/** Requests of one kind, of which only the newest matters while an older one is on its way. */

/** Why a request was never sent: a newer one of its lane took its place. */
export class Superseded extends Error {
  constructor() {
    super("a newer request took the place of this one");
  }
}

interface Waiting<Request, Answer> {
  readonly request: Request;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends at most one request at a time; of those that wait, only the last is kept.
 *
 * ask(1), ask(2), ask(3) while 1 is unanswered  ->  1 and 3 are sent, 2 is rejected
 */
export class Lane<Request, Answer> {
  #waiting: Waiting<Request, Answer> | null = null;
  #busy = false;

  constructor(private readonly send: (request: Request) => Promise<Answer>) {}

  get busy(): boolean {
    return this.#busy;
  }

  ask(request: Request): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting?.reject(new Superseded());
      this.#waiting = { request, resolve, reject };
      if (!this.#busy) void this.#drain();
    });
  }

  /** Forgets what waits. What is on its way is still answered. */
  drop(): void {
    this.#waiting?.reject(new Superseded());
    this.#waiting = null;
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    while (this.#waiting) {
      const { request, resolve, reject } = this.#waiting;
      this.#waiting = null;
      try {
        resolve(await this.send(request));
      } catch (error) {
        reject(error);
      }
    }
    this.#busy = false;
  }
}
