/** Sessions over models whose trait `overview` is all that is shown before anything is asked. */
import type { Port } from "../protocol/client.ts";
import { portOf, releaseWhenUnseen, type Seen, type Shared, tellRefill } from "./jupyter.ts";
import { type Ends, syncTrait } from "./selection.ts";

interface Overviewed<O> extends Seen {
  readonly state: { readonly now: { readonly overview: O | null } };
  load(overview: O | null): void;
}

interface Sessions<S> {
  /** The session of a model: the same for all its views. */
  readonly of: (shared: Shared) => S;
  /** When no view is left, what the model holds is let go. */
  readonly release: (shared: Shared) => void;
}

/** Sessions of one kind: how one is made, and how its selection and the trait keep in step. */
export function sessionsOf<O, S extends Overviewed<O>, Selection extends object>(
  make: (port: Port, overview: O | null) => S,
  endsOf: (session: S) => Ends<Selection>,
): Sessions<S> {
  const sessions = new WeakMap<Shared, S>();
  const setUp = (shared: Shared): S => {
    const { model } = shared;
    const overview = (): O | null => (model.get("overview") as O | null | undefined) ?? null;
    const session = make(portOf(model, shared.signal), overview());
    sessions.set(shared, session);
    shared.setUps = (shared.setUps ?? 0) + 1;
    model.on("change:overview", () => {
      const now = overview();
      if (now) session.load(now);
    });
    syncTrait(model, endsOf(session));
    return session;
  };
  return {
    of: (shared) => {
      const session = sessions.get(shared) ?? setUp(shared);
      if (session.state.now.overview === null) tellRefill(session.client);
      return session;
    },
    release: (shared) => {
      const session = sessions.get(shared);
      if (session) releaseWhenUnseen(shared, session, ["overview"], () => session.load(null));
    },
  };
}
